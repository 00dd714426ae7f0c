/* tls.h: TLS on one connection, by OpenSSL, which reads and writes by functions of ours: no call waits, and none raises
 * SIGPIPE. Where the build has no OpenSSL, no_tls.c stands for all of it. */
#pragma once

#include <sys/types.h>

#include "target.h"

typedef struct lk_redis_tls lk_redis_tls;

/* Check what the settings say, and read the files that they name: what they hold is used for as long as files that were
 * changed later can't be. CONFIG names the option; UNSUPPORTED: this build has no TLS. */
locker_status lk_redis_tls_init(lk_redis_tls_settings *settings, locker_error *err);
void lk_redis_tls_clear(lk_redis_tls_settings *settings);

/* TLS over a connected socket, which stays the caller's, to `host`: a name or an address. It reads the files anew. NULL: out of
 * memory. */
lk_redis_tls *lk_redis_tls_new(const lk_redis_tls_settings *settings, int fd, const char *host);

/* NULL is allowed. `farewell`: tell the server that nothing more will come. */
void lk_redis_tls_free(lk_redis_tls *tls, bool farewell);

/* A step of the handshake. 0: it is done; EAGAIN: *waits is what poll has to tell before the next; else an errno. */
int lk_redis_tls_handshake(lk_redis_tls *tls, short *waits);

/* Whether anything at all has come. */
bool lk_redis_tls_heard(const lk_redis_tls *tls);

/* Whether what went wrong is known to be the other end's word, or ours on its certificate: it is in `why` then. */
bool lk_redis_tls_told(const lk_redis_tls *tls, const lk_redis_service *service, const char *peer,
                       lk_redis_failure *why);

/* As send() and recv(): -1 and errno, EAGAIN with what poll has to tell before more can be sent; 0 at the end. One thread may send
 * while another receives. *unsent: of what was taken something waits for POLLOUT and another call, which may have a length of 0.
 * *more: there are bytes in here of which poll can't tell. */
ssize_t lk_redis_tls_send(lk_redis_tls *tls, const char *data, size_t len, short *waits, bool *unsent);
ssize_t lk_redis_tls_receive(lk_redis_tls *tls, char *data, size_t cap, bool *more);
