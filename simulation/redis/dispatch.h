/* dispatch.h: a request on its way to its command, and what may stop it. */
#pragma once

#include "state.h"

/** Runs the requests of what the client has sent, until one has to wait. */
void lk_sr_dispatch(lk_sr_client *client);

/** Those that may go on do so, and answers leave. For who was called from outside, at the end of that. */
void lk_sr_resume(lk_sr_server *server);
