/* expect.c: checks with messages, the clock and bounded polling, for all tests; see expect.h. */
#include "expect.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers/wait.h"

void lk_expect_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    _fail(file, line);
    abort(); /* _fail() jumps out of the test */
}

void lk_expect_status(locker_status wanted, locker_status got, const locker_error *err, const char *call,
                      const char *file, int line)
{
    if (got != wanted)
        lk_expect_fail(file, line, "%s answered %s, not %s: %s", call, locker_status_name(got),
                       locker_status_name(wanted), err != NULL ? err->text : "(no error struct)");
    if (err == NULL)
        return;
    if (err->status != got)
        lk_expect_fail(file, line, "%s answered %s and left status %s in the error", call,
                       locker_status_name(got), locker_status_name(err->status));
    if ((got == LOCKER_OK) != (err->text[0] == '\0'))
        lk_expect_fail(file, line, "%s answered %s with the text '%s'", call, locker_status_name(got),
                       err->text);
    if (strchr(err->text, '\n') != NULL)
        lk_expect_fail(file, line, "%s gave an error of more than one line: %s", call, err->text);
}

#ifdef __SANITIZE_THREAD__
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
/* ZooKeeper's client library forgets a copy of the names of its files with each handle for TLS. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:zookeeper_init_ssl\n";
}
#endif

#ifdef WITH_TSAN
/* The sanitizer asks for this. ZooKeeper's client library writes the texts of its log into buffers of the
 * process, with several handles at a time; each buffer ends with a NUL for good, and nobody reads them. The
 * library itself is not instrumented, so only its own calls of snprintf and the like are meant by this, no
 * callback of ours. Where it is embedded, a function of it is named. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libzookeeper_st.so\nrace:log_message\nrace:format_endpoint_info\n";
}
#endif

int64_t lk_test_now_ms(void)
{
    return lk_now_ns() / 1000000;
}

void lk_require(bool (*condition)(void *context), void *context, const char *what)
{
    if (!lk_until(condition, context, LK_TEST_PATIENCE_MS))
        test_fails("timed out after %d s: %s", LK_TEST_PATIENCE_MS / 1000, what);
}

locker_statistics lk_stats(locker *l)
{
    locker_statistics stats = {.size = sizeof stats};
    const locker_status status = locker_stats(l, &stats);
    if (status != LOCKER_OK)
        test_fails("locker_stats answered %s", locker_status_name(status));
    return stats;
}

struct waiting {
    locker *l;
    uint64_t count;
};

static bool are_waiting(void *context)
{
    struct waiting *wanted = context;
    return lk_stats(wanted->l).waiting == wanted->count;
}

void lk_require_waiting(locker *l, uint64_t count)
{
    struct waiting wanted = {l, count};
    char what[80];
    snprintf(what, sizeof what, "%llu calls should be waiting", (unsigned long long)count);
    lk_require(are_waiting, &wanted, what);
}

struct has_state {
    locker_handle *held;
    locker_state state;
};

static bool has_state(void *context)
{
    struct has_state *wanted = context;
    return locker_handle_state(wanted->held) == wanted->state;
}

void lk_require_state(locker_handle *held, locker_state state)
{
    struct has_state wanted = {held, state};
    char what[80];
    snprintf(what, sizeof what, "the handle's state should become %s", locker_state_name(state));
    lk_require(has_state, &wanted, what);
}

bool lk_readable(int fd, int64_t timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&one, 1, (int)timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready == 1;
}

void lk_private_directory(char path[64])
{
    const char *base = getenv("TMPDIR");
    /* a Unix socket's path must fit into 108 bytes, so a long TMPDIR is of no use */
    if (base == NULL || base[0] != '/' || strlen(base) > 40)
        base = "/tmp";
    snprintf(path, 64, "%s/locker-test-XXXXXX", base);
    if (mkdtemp(path) == NULL)
        test_fails("can't make the directory %s: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void lk_remove_directory(const char *path)
{
    if (path[0] == '/' && getenv("LK_TEST_KEEP") == NULL)
        nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

long lk_memory_peak_kib(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}
