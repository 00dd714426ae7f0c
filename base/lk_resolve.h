/* lk_resolve.h: the addresses of a host. */
#pragma once

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

/** The addresses of a host if it is written as an address, for freeaddrinfo(); NULL: it is a name, or nothing at all. */
static inline struct addrinfo *lk_resolve_literal(const char *host, int port)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    (void)snprintf(service, sizeof service, "%d", port);
    return getaddrinfo(host, service, &hints, &found) == 0 ? found : NULL;
}

/** The addresses of a host, for freeaddrinfo(). NULL: *rc is what getaddrinfo() answered, and errno what it left behind. Blocks
 * while the resolver looks up a name. An address does not go to the resolver: a thread that is inside the resolver at the moment
 * of a fork leaves its locks taken for the child. AI_ADDRCONFIG takes one of these locks even for an address, so it is not used. */
static inline struct addrinfo *lk_resolve(const char *host, int port, int *rc)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = lk_resolve_literal(host, port);
    char service[16];
    *rc = 0;
    if (found != NULL)
        return found;
    (void)snprintf(service, sizeof service, "%d", port);
    errno = 0;
    *rc = getaddrinfo(host, service, &hints, &found);
    return *rc == 0 ? found : NULL;
}
