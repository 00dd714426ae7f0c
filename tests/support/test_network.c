/* test_network.c: a network in which the members of an ensemble can be cut off; see test_network.h. */
#include "test_network.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "skips.h"

static void write_file(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write_file(const char *path, const char *format, ...)
{
    FILE *file = fopen(path, "we");
    va_list args;
    va_start(args, format);
    if (file == NULL || vfprintf(file, format, args) < 0 || fclose(file) != 0)
        test_fails("can't write %s: %s", path, strerror(errno));
    va_end(args);
}

/* Ends the program as skipped. */
static _Noreturn void cannot_cut(const char *why)
{
    lk_test_report_skip("networks that are cut", why);
    fflush(NULL);
    _exit(77); /* SKIP_RETURN_CODE */
}

/* Who isn't root becomes it in a user namespace of his own, with a network namespace that is its. */
static void become_root(void)
{
    unsigned user = geteuid(), group = getegid();
    if (user == 0)
        return;
    if (unshare(CLONE_NEWNET | CLONE_NEWUSER) < 0)
        cannot_cut("can't make a network namespace; run this test as root, or allow user namespaces (sysctl "
                   "kernel.unprivileged_userns_clone, user.max_user_namespaces)");
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 %u 1", user);
    write_file("/proc/self/gid_map", "0 %u 1", group);
}

const lk_network *lk_test_network(void)
{
    static lk_network network;
    char why[160];
    become_root();
    if (lk_network_missing() != NULL)
        cannot_cut(lk_network_missing());
    if (!lk_network_open(&network, why, sizeof why))
        cannot_cut(why);
    if (setns(network.hub.netns, CLONE_NEWNET) < 0)
        test_fails("can't go to the network of the test: %s", strerror(errno));
    return &network;
}

void lk_test_drop(const lk_place *to, const lk_place *from)
{
    if (!lk_network_drop(to, from))
        test_fails("iptables can't drop what comes to %s from %s", to->address, from->address);
}

void lk_test_mend(const lk_place *to)
{
    if (!lk_network_mend(to))
        test_fails("iptables can't let pass what comes to %s", to->address);
}
