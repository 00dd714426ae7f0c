/* handover.h: what the client library waits for, and who sees to that. */
#pragma once

#include "net.h"

/* Ask the client library what it waits for: the socket, its directions, the time. It may connect, ping or give a
 * connection up on this occasion. */
void lk_zk_ask_interest_locked(lk_zk_net *net, int64_t now) LK_REQUIRES(*net);
/* What the library's answer to reading and writing means. */
void lk_zk_processed_locked(lk_zk_net *net, int rc) LK_REQUIRES(*net);
/* After a caller has left, the keeper takes over so much later, where nobody waits for anything. */
#define LK_ZK_LAZY_NS (20 * LK_MS)
bool lk_zk_is_idle_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* Have the keeper's epoll watch the socket, unless a thread drives. */
void lk_zk_arm_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Somebody has to go on driving, unless a thread does: a caller that sleeps, or the keeper. */
void lk_zk_hand_on_locked(lk_zk_net *net) LK_REQUIRES(*net);
