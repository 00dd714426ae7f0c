/* clients.h: clients whose requests wait: for replicas (WAIT), or for the end of a pause. */
#pragma once

#include "state.h"

/** The client's next requests wait, for what `block` says. */
void lk_sr_clients_block(lk_sr_client *client, lk_sr_block block);

/** The server closes it; its answers are still sent. */
void lk_sr_close(lk_sr_client *client);

/** It waits no more. */
void lk_sr_clients_release(lk_sr_client *client);

/** Replicas have confirmed more: those that waited for it are answered. Who may go on does so by lk_sr_resume(). */
void lk_sr_clients_confirmed(lk_sr_server *server);

/** Those whose time is over are answered; a pause that is over is. */
void lk_sr_clients_look(lk_sr_server *server);

/** The server is a replica now: whoever waits is told so and closed. */
void lk_sr_clients_unblock(lk_sr_server *server);

/** When lk_sr_clients_look() has something to do, of the server's clock in ms; INT64_MAX: never. */
int64_t lk_sr_clients_due(const lk_sr_server *server);

/** The client is called so; false: that is no name, which was answered. */
bool lk_sr_client_take_name(lk_sr_call *call, lk_sr_text name);

/** Closes it for somebody: at once, unless he does it to himself, who is answered before. */
void lk_sr_clients_kill(lk_sr_call *call, lk_sr_client *client);

/** The pause is over. */
void lk_sr_clients_unpause(lk_sr_server *server);
