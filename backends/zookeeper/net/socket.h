/* socket.h: the client library's socket, and the keeper's epoll that holds it. */
#pragma once

#include "net.h"

/* Have what is sent wait for more, and go together in one piece: the library writes each request in two, and every
 * piece costs the server a turn. */
void lk_zk_cork_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Let it go: before the mutex is released, and before anything is waited for. */
void lk_zk_push_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* The library has closed its socket. */
void lk_zk_no_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Have whoever drives look again: the connection has changed. */
void lk_zk_kick_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Have the keeper's epoll tell of the socket once; and not any more. */
void lk_zk_arm_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
void lk_zk_disarm_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* What it tells of the socket now, without waiting: directions, as the client library wants them. 0: nothing. */
int lk_zk_told_of_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* What poll or epoll tells, likewise. */
int lk_zk_directions_locked(const lk_zk_net *net, uint32_t ready) LK_REQUIRES(*net);
