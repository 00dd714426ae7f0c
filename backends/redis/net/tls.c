/* tls.c: TLS by hiredis, where this build has it. What is sent and received by it is socket.c's matter. */
#include "socket.h"

#ifdef LOCKER_REDIS_TLS
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <hiredis/hiredis_ssl.h>

locker_status lk_redis_tls_init(lk_redis_target *target, locker_error *err)
{
    redisSSLContextError why = REDIS_SSL_CTX_NONE;
    /* hiredis compares no names: of the system's authorities any certificate would pose as the server's. */
    if (target->tls_ca == NULL)
        return lk_misconfigured(
            err, "rediss needs tls_ca, the file of the authority that certifies your Redis servers "
                 "for TLS; the system's authorities are not enough, as names are not compared");
    redisInitOpenSSL();
    redisSSLContext *context = redisCreateSSLContext(target->tls_ca, NULL, target->tls_cert, target->tls_key,
                                                     target->tls_name, &why);
    if (context == NULL)
        return lk_misconfigured(err, "can't set up TLS: %s; check tls_ca, tls_cert and tls_key",
                                redisSSLContextGetError(why));
    target->tls_context = context;
    return LOCKER_OK;
}

void lk_redis_tls_clear(lk_redis_target *target)
{
    redisFreeSSLContext(target->tls_context);
    target->tls_context = NULL;
}

/* Whether the other end had its say: it did not let the time pass, and did not go without an alert. Only then
 * is what it said a reason to give up for good. */
static bool has_refused_tls(const lk_redis_socket *socket, const char *text, int64_t until)
{
    char byte;
    if (lk_redis_system_now() >= until)
        return false;
    if (strstr(text, " alert ") != NULL)
        return true;
    const ssize_t n = recv(socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

bool lk_redis_tls_start(const lk_redis_target *target, lk_redis_socket *socket, int64_t until,
                        lk_redis_failure *why)
{
    const struct timespec left = lk_time_spec(lk_time_left(lk_redis_system_now(), until));
    const struct timeval bound = {.tv_sec = left.tv_sec, .tv_usec = (suseconds_t)(left.tv_nsec / 1000) + 1};
    const int flags = fcntl(socket->fd, F_GETFL);
    redisContext *context = redisConnectFd(socket->fd);
    if (context == NULL || context->err != 0) {
        if (context != NULL) {
            context->fd = -1;
            redisFree(context);
        }
        lk_out_of_memory(&why->error);
        return false;
    }
    socket->tls = context;
    context->flags |= REDIS_BLOCK;
    (void)fcntl(socket->fd, F_SETFL, flags & ~O_NONBLOCK);
    (void)setsockopt(socket->fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    (void)setsockopt(socket->fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    if (redisInitiateSSLWithContext(context, target->tls_context) != REDIS_OK) {
        why->permanent = has_refused_tls(socket, context->errstr, until);
        locker_error_set(&why->error, why->permanent ? LOCKER_PROTOCOL : LOCKER_UNAVAILABLE, 0,
                         "no TLS with %s: %s; check that the port speaks TLS, that tls_ca is its authority, "
                         "and tls_cert and tls_key if the server wants a client's certificate",
                         socket->peer, context->errstr);
        return false;
    }
    context->flags &= ~REDIS_BLOCK;
    (void)fcntl(socket->fd, F_SETFL, flags | O_NONBLOCK);
    return true;
}

#else

locker_status lk_redis_tls_init(lk_redis_target *target, locker_error *err)
{
    (void)target;
    return lk_unsupported(err, "this build has no TLS: rediss:// needs hiredis 1.0 or later with "
                               "hiredis_ssl; build with it, or use redis:// on a network that you trust");
}

void lk_redis_tls_clear(lk_redis_target *target)
{
    (void)target;
}

#endif
