/* netns.c: namespaces without names, a bridge, and rules that drop packets; see netns.h. */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process.h"

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

/* A new namespace, and we are back in ours. -1 with errno. */
static int new_namespace(void)
{
    int ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), made = -1;

    if (ours >= 0 && unshare(CLONE_NEWNET) == 0) {
        made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        if (setns(ours, CLONE_NEWNET) < 0)
            made = -1;
    }
    if (ours >= 0)
        close(ours);
    return made;
}

int lk_netns_socket(int netns)
{
    int ours = -1, fd;

    if (netns < 0)
        return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (ours < 0 || setns(netns, CLONE_NEWNET) < 0) {
        if (ours >= 0)
            close(ours);
        return -1;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setns(ours, CLONE_NEWNET) < 0 && fd >= 0) {
        close(fd);
        fd = -1;
    }
    close(ours);
    return fd;
}

/* Run a command of words separated by spaces in a namespace. */
static bool command(int netns, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool command(int netns, const char *format, ...)
{
    char line[256], *rest = NULL;
    const char *words[24];
    size_t count = 0;
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (char *word = strtok_r(line, " ", &rest); word && count < 23; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    return lk_process_run(netns, words) == 0;
}

static bool join(const lk_network *network, int i)
{
    const lk_place *member = &network->members[i];
    const int hub = network->hub.netns;

    /* ip inherits no descriptor of ours, so the namespace goes by our process's name for it */
    return command(hub, "ip link add m%d type veth peer name eth0 netns /proc/%d/fd/%d", i, (int)getpid(),
                   member->netns) &&
           command(hub, "ip link set m%d master bridge up", i) &&
           command(member->netns, "ip address add %s/24 dev eth0", member->address) &&
           command(member->netns, "ip link set eth0 up") && command(member->netns, "ip link set lo up");
}

static bool all_made(const lk_network *network)
{
    bool all = network->hub.netns >= 0;

    for (int i = 0; i < LK_NET_MEMBERS; i++)
        all = all && network->members[i].netns >= 0;
    return all;
}

bool lk_network_open(lk_network *network, char *why, size_t size)
{
    bool good;

    memset(network, 0, sizeof(*network));
    network->hub.netns = new_namespace();
    snprintf(network->hub.address, sizeof(network->hub.address), "10.200.0.254");
    for (int i = 0; i < LK_NET_MEMBERS; i++) {
        network->members[i].netns = new_namespace();
        snprintf(network->members[i].address, sizeof(network->members[i].address), "10.200.0.%d", i + 1);
    }
    if (!all_made(network)) {
        snprintf(why, size, "needs network namespaces, and the kernel refuses one: %s", strerror(errno));
        lk_network_close(network);
        return false;
    }
    good = command(network->hub.netns, "ip link add bridge type bridge") &&
           command(network->hub.netns, "ip address add %s/24 dev bridge", network->hub.address) &&
           command(network->hub.netns, "ip link set bridge up") &&
           command(network->hub.netns, "ip link set lo up");
    for (int i = 0; good && i < LK_NET_MEMBERS; i++)
        good = join(network, i);
    if (!good) {
        snprintf(why, size, "needs network namespaces: ip can't set up a bridge between them here");
        lk_network_close(network);
    }
    return good;
}

void lk_network_close(lk_network *network)
{
    if (network->hub.netns >= 0)
        close(network->hub.netns);
    for (int i = 0; i < LK_NET_MEMBERS; i++)
        if (network->members[i].netns >= 0)
            close(network->members[i].netns);
}

bool lk_network_drop(const lk_place *to, const lk_place *from, bool on)
{
    return command(to->netns, "iptables -w %s INPUT -s %s -j DROP", on ? "-A" : "-D", from->address);
}
