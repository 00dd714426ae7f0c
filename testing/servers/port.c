/* port.c: ports for servers; see port.h. */
#include "servers/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "servers/wait.h"

enum { FIRST_PORT = 12000, PORTS = 20000 };

static bool is_free(int port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool bound = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return bound;
}

int lk_free_port(void)
{
    static unsigned next;
    if (next == 0)
        next = (unsigned)getpid() * 31U + (unsigned)(lk_now_ns() / 1000000);
    for (int tries = 0; tries < 1000; tries++) {
        next = next * 1103515245U + 12345U;
        const int port = FIRST_PORT + (int)((next >> 8) % PORTS);

        if (is_free(port))
            return port;
    }
    return 0;
}
