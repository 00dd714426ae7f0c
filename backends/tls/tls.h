/* tls.h: TLS on one connection, for drivers whose client library has none: by OpenSSL, which reads and writes by functions of
 * ours. No call waits, and none raises SIGPIPE. Where the build has no OpenSSL, no_tls.c stands for all of it. */
#pragma once

#include <sys/types.h>

#include "tls_settings.h"

typedef struct lk_tls lk_tls;

/* Copy the texts. `values`: the driver's, from the first of these on. False: out of memory; clear it also then. */
bool lk_tls_settings_copy(lk_tls_settings *settings, const locker_value values[LK_TLS_PARAMETERS]);

/* Check what the settings say, of which lk_tls_settings_copy() has the copies, and read the files that they name: what these
 * hold is used for as long as files that were changed later can't be. CONFIG names the option; UNSUPPORTED: this build has no
 * TLS. */
locker_status lk_tls_init(lk_tls_settings *settings, const locker_value values[LK_TLS_PARAMETERS],
                          locker_error *err);
/* Free what the files said, and the copies. Settings that are all zero are allowed. */
void lk_tls_clear(lk_tls_settings *settings);

/* The part of lk_tls_init() and of lk_tls_clear() that differs in a build without OpenSSL. */
locker_status lk_tls_open_files(lk_tls_settings *settings, locker_error *err);
void lk_tls_close_files(struct ssl_ctx_st *files);

/* TLS over a connected socket, which stays the caller's, to `host`: a name or an address. It reads the files anew, and uses the
 * settings until it is freed. NULL: out of memory. */
lk_tls *lk_tls_new(const lk_tls_settings *settings, int fd, const char *host);

/* NULL is allowed. `farewell`: tell the server that nothing more will come. */
void lk_tls_free(lk_tls *tls, bool farewell);

/* A step of the handshake. 0: it is done, and settings->alpn agreed on, where there is one; EAGAIN: *waits is what poll has to
 * tell before the next; else an errno. */
int lk_tls_handshake(lk_tls *tls, short *waits);

/* Whether anything at all has come. */
bool lk_tls_heard(const lk_tls *tls);

/* Whether what went wrong is known to be the other end's word, or ours on it and its certificate: it is in `err` then.
 * `peer`: where that is, as texts say it. *permanent: a person has to change something. */
bool lk_tls_told(const lk_tls *tls, const char *peer, locker_error *err, bool *permanent);

/* As send() and recv(): -1 and errno, EAGAIN with what poll has to tell before more can be sent; 0 at the end. One thread may send
 * while another receives. *unsent: of what was taken something waits for POLLOUT and another call, which may have a length of 0.
 * *more: there are bytes in here of which poll can't tell. */
ssize_t lk_tls_send(lk_tls *tls, const char *data, size_t len, short *waits, bool *unsent);
ssize_t lk_tls_receive(lk_tls *tls, char *data, size_t cap, bool *more);
