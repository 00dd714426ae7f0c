/* keepalive.c: a holder that keeps its lease alive; see keepalive.h. */
#include "keepalive.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "etcdctl.h"
#include "expect.h"

/* A lease, and a key in the lock's queue with it. False: etcdctl said something else. */
static bool enter(const lk_server *member, const char *name, const char *ttl_s, char lease[32])
{
    char said[500];
    if (!lk_etcdctl_try(member, said, sizeof said, "lease grant %s", ttl_s) ||
        sscanf(said, "lease %31[0-9a-f] granted", lease) != 1)
        return false;
    return lk_etcdctl_try(member, said, sizeof said, "put --lease=%s %s/keepalive x", lease, name);
}

/* Until no answer has come for the lease's time, or somebody speaks to it. Then nobody keeps the lease alive. */
static void hold(lk_child *keeper, int64_t ttl_ms)
{
    int64_t deadline = lk_test_now_ms() + ttl_ms;
    char text[256];
    for (int64_t left; (left = deadline - lk_test_now_ms()) > 0;) {
        struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = keeper->output, .events = POLLIN}};
        (void)poll(waits, 2, (int)left);
        if (waits[0].revents != 0) {
            lk_side_say("kept %lld", (long long)deadline);
            return;
        }
        if (waits[1].revents == 0)
            continue;
        const ssize_t got = read(keeper->output, text, sizeof text - 1);
        text[got > 0 ? got : 0] = '\0';
        if (strstr(text, "keepalived") != NULL)
            deadline = lk_test_now_ms() + ttl_ms;
        if (got <= 0)
            usleep(1000);
    }
    lk_side_say("lost %lld %lld", (long long)lk_test_now_ms(), (long long)deadline);
    lk_child_kill(keeper);
    (void)fgets(text, sizeof text, stdin);
}

int lk_play_keepalive(int argc, char **argv)
{
    lk_server member = {.place = lk_here};
    char endpoint[80], lease[32], line[LK_LINE_MAX];
    if (argc < 4)
        return 64;
    snprintf(member.place.address, sizeof member.place.address, "%s", argv[0]);
    member.port = atoi(argv[1]);
    snprintf(endpoint, sizeof endpoint, "http://%s:%s", argv[0], argv[1]);
    lk_side_say("open");
    if (!lk_side_hear(line))
        return 1;
    if (!enter(&member, argv[2], argv[3], lease)) {
        lk_side_say("failed");
        return 1;
    }
    lk_side_say("held %d %lld", atoi(argv[3]) * 1000, (long long)lk_test_now_ms());
    const char *const words[] = {"etcdctl", "--endpoints", endpoint, "lease", "keep-alive", lease, NULL};
    hold(lk_child_run(words, "etcd-client"), atoi(argv[3]) * INT64_C(1000));
    _exit(0); /* etcdctl ends with us */
}
