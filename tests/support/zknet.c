/* zknet.c: a network in which the members of an ensemble can be cut off from each other; see zknet.h. */
#include "zknet.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "expect.h"

enum { HERE = -1 };

#define SUBNET "10.77.0"

/* Runs a command of words separated by spaces in a namespace, and answers its exit code. */
static int command(int netns, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int command(int netns, const char *format, ...)
{
    char line[256], *words[24], *rest = line;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), status = 0;
    size_t count = 0;
    va_list args;
    pid_t pid;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    while (count < 23 && (words[count] = strtok_r(rest, " ", &rest)) != NULL)
        count++;
    words[count] = NULL;
    pid = lk_child_exec_in(netns, (const char *const *)words, null, 2, 2);
    close(null);
    if (pid < 0)
        test_fails("can't run %s: %s; install iproute2 and iptables", words[0], strerror(errno));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#define must(netns, ...)                                                                                     \
    do {                                                                                                     \
        if (command((netns), __VA_ARGS__) != 0)                                                              \
            test_fails("this command failed: " __VA_ARGS__);                                                 \
    } while (0)

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

void lk_zkn_tell_skipped(const char *tests, const char *what, const char *why)
{
    const char *refuse = getenv("LOCKER_TEST_SKIPS"), *name = getenv("LOCKER_TEST_SKIPPED");
    FILE *file;

    if (refuse != NULL && strcmp(refuse, "refuse") == 0)
        test_fails("%s: %s; skips are refused (LOCKER_TEST_SKIPS)", what, why);
    print_message("SKIPPED: %s: %s: %s\n", tests, what, why);
    file = name != NULL ? fopen(name, "ae") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%s: %s: %s: %s\n", program_invocation_short_name, tests, what, why);
    fclose(file);
}

/* Ends the program as skipped. */
static void cannot_cut(const char *what, const char *why)
{
    lk_zkn_tell_skipped("networks that are cut", what, why);
    fflush(NULL);
    _exit(77); /* SKIP_RETURN_CODE */
}

/* Goes to a network namespace of our own; who isn't root becomes it in a user namespace of his own. */
static void leave_the_host(void)
{
    unsigned user = geteuid(), group = getegid();

    if (unshare(CLONE_NEWNET | (user != 0 ? CLONE_NEWUSER : 0)) < 0)
        cannot_cut("can't make a network namespace; run this test as root, or allow user namespaces (sysctl "
                   "kernel.unprivileged_userns_clone, user.max_user_namespaces)",
                   strerror(errno));
    if (user == 0)
        return;
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 %u 1", user);
    write_file("/proc/self/gid_map", "0 %u 1", group);
}

/* A namespace lasts as long as a descriptor or a process in it. */
static int make_namespace(void)
{
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), made = -1;

    if (home >= 0 && unshare(CLONE_NEWNET) == 0)
        made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (made < 0 || setns(home, CLONE_NEWNET) < 0)
        test_fails("can't make a network namespace: %s", strerror(errno));
    close(home);
    return made;
}

void lk_zkn_make(struct lk_zks_site sites[LK_ZKS_ENSEMBLE], int tick_ms)
{
    leave_the_host();
    must(HERE, "ip link set lo up");
    if (command(HERE, "ip link add bridge0 type bridge") != 0 || command(HERE, "iptables -w -F INPUT") != 0)
        cannot_cut("ip and iptables",
                   "they are missing (iproute2, iptables), or this kernel gives no bridge or no rules");
    must(HERE, "ip address add " LK_ZKN_HERE "/24 dev bridge0");
    must(HERE, "ip link set bridge0 up");
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        int there = make_namespace();

        sites[i].netns = there;
        sites[i].tick_ms = tick_ms;
        snprintf(sites[i].address, sizeof sites[i].address, SUBNET ".%d", i + 1);
        must(HERE, "ip link add cable%d type veth peer name eth0 netns /proc/%d/fd/%d", i, (int)getpid(),
             there);
        must(HERE, "ip link set cable%d master bridge0 up", i);
        must(there, "ip address add %s/24 dev eth0", sites[i].address);
        must(there, "ip link set eth0 up");
        must(there, "ip link set lo up");
    }
}

void lk_zkn_drop(const struct lk_zks *to, const char *from)
{
    must(to->netns, "iptables -w -A INPUT -s %s -j DROP", from);
}

void lk_zkn_mend(const struct lk_zks *member)
{
    must(member->netns, "iptables -w -F INPUT");
}
