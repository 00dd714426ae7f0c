/* network.c: namespaces without names, a bridge, and rules that drop packets; see network.h. */
#include "servers/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "servers/process.h"

#define SUBNET "10.200.0"

const lk_place lk_here = {0, "127.0.0.1"};

const char *lk_network_missing(void)
{
    if (geteuid() != 0)
        return "needs root and network namespaces";
    if (!lk_program_exists("ip"))
        return "needs the program ip: install iproute2";
    if (!lk_program_exists("iptables"))
        return "needs the program iptables: install iptables";
    return NULL;
}

/* ------------------------------------------------------------------ namespaces ---- */

static int namespace_of_thread(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* A new namespace, and we are back in ours. -1 with errno. */
static int new_namespace(void)
{
    int ours = namespace_of_thread(), made = -1;
    if (ours >= 0 && unshare(CLONE_NEWNET) == 0) {
        made = namespace_of_thread();
        if (setns(ours, CLONE_NEWNET) < 0)
            made = -1;
    }
    if (ours >= 0)
        close(ours);
    return made;
}

int lk_network_socket(const lk_place *place)
{
    if (place->netns <= 0)
        return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int ours = namespace_of_thread();
    int fd = -1;
    if (ours >= 0 && setns(place->netns, CLONE_NEWNET) == 0) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (setns(ours, CLONE_NEWNET) < 0 && fd >= 0) {
            close(fd);
            fd = -1;
        }
    }
    if (ours >= 0)
        close(ours);
    return fd;
}

/* ------------------------------------------------------------------ commands ---- */

/* Runs a command of words separated by spaces in a place. */
static bool command(const lk_place *place, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool command(const lk_place *place, const char *format, ...)
{
    char *rest = NULL;
    size_t count = 0;
    va_list args;
    va_start(args, format);
    char line[256];
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    const char *words[24];
    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < 23;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    return lk_process_run(place->netns, words) == 0;
}

bool lk_network_drop(const lk_place *to, const lk_place *from)
{
    return command(to, "iptables -w -A INPUT -s %s -j DROP", from->address);
}

bool lk_network_mend(const lk_place *to)
{
    return command(to, "iptables -w -F INPUT");
}

/* ------------------------------------------------------------------ the network ---- */

static bool join(const lk_network *network, int i)
{
    const lk_place *member = &network->members[i], *hub = &network->hub;
    /* ip inherits no descriptor of ours, so the namespace goes by our process's name for it */
    return command(hub, "ip link add m%d type veth peer name eth0 netns /proc/%d/fd/%d", i, (int)getpid(),
                   member->netns) &&
           command(hub, "ip link set m%d master bridge up", i) &&
           command(member, "ip address add %s/24 dev eth0", member->address) &&
           command(member, "ip link set eth0 up") && command(member, "ip link set lo up");
}

static bool set_up_hub(const lk_place *hub)
{
    return command(hub, "ip link add bridge type bridge") &&
           command(hub, "ip address add %s/24 dev bridge", hub->address) &&
           command(hub, "ip link set bridge up") && command(hub, "ip link set lo up");
}

static bool make_namespaces(lk_network *network)
{
    network->hub = (lk_place){new_namespace(), SUBNET ".254"};
    bool all = network->hub.netns > 0;
    for (int i = 0; i < LK_NETWORK_MEMBERS; i++) {
        network->members[i].netns = all ? new_namespace() : -1;
        snprintf(network->members[i].address, sizeof network->members[i].address, SUBNET ".%d", i + 1);
        all = all && network->members[i].netns > 0;
    }
    return all;
}

bool lk_network_open(lk_network *network, char *why, size_t size)
{
    bool good = make_namespaces(network);
    if (!good) {
        snprintf(why, size, "needs network namespaces, and the kernel refuses one: %s", strerror(errno));
        lk_network_close(network);
        return false;
    }
    good = set_up_hub(&network->hub);
    for (int i = 0; good && i < LK_NETWORK_MEMBERS; i++)
        good = join(network, i);
    if (!good)
        snprintf(why, size, "needs network namespaces, and ip cannot set up a bridge between them here");
    else if (!lk_network_mend(&network->hub))
        snprintf(why, size,
                 "needs iptables to drop packets in a network namespace, and iptables cannot do so here");
    else
        return true;
    lk_network_close(network);
    return false;
}

void lk_network_close(lk_network *network)
{
    if (network->hub.netns > 0)
        close(network->hub.netns);
    for (int i = 0; i < LK_NETWORK_MEMBERS; i++)
        if (network->members[i].netns > 0)
            close(network->members[i].netns);
}
