/* locker.c: making a locker, the frame around each call, and what a locker is asked about its service. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

/* ------------------------------------------------------------------ forks ---- */

/* A page that the kernel wipes in a fork's child tells the child apart without a system call (madvise(2),
 * MADV_WIPEONFORK, Linux 4.14). Where it can't be had, the process id does. */
static void watch_forks(locker *l)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    l->pid = getpid();
    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, size);
        return;
    }
    *page = 1;
    l->fork_page = page;
    l->fork_page_size = size;
}

/* ------------------------------------------------------------------ the frame of a call ---- */

locker_status lk_admit(const locker *l, const char *what, locker_error *err)
{
    if (lk_forked(l))
        return locker_error_set(err, LOCKER_FORKED, 0,
                                "%s: this locker belongs to the parent process: open one in the child", what);
    if (lk_in_callback(l))
        return locker_error_set(
            err, LOCKER_INVALID, 0,
            "%s waits for the service, so it can't be called inside a callback of its locker", what);
    return LOCKER_OK;
}

locker_status lk_enter(locker *l, const char *what, locker_error *err)
{
    locker_status status = lk_admit(l, what, err);
    bool closing;

    if (status != LOCKER_OK)
        return status;
    (void)pthread_mutex_lock(&l->mutex);
    closing = l->closing;
    if (!closing)
        l->calls++;
    (void)pthread_mutex_unlock(&l->mutex);
    return closing ? locker_error_set(err, LOCKER_CLOSED, 0, "%s: the locker is closed", what) : LOCKER_OK;
}

void lk_leave(locker *l)
{
    (void)pthread_mutex_lock(&l->mutex);
    lk_leave_locked(l);
    (void)pthread_mutex_unlock(&l->mutex);
}

/* ------------------------------------------------------------------ making and freeing ---- */

static void destroy(locker *l)
{
    LK_NO_CANCEL;

    if (l->epoll_fd >= 0)
        (void)close(l->epoll_fd);
    if (l->kick_fd >= 0)
        (void)close(l->kick_fd);
    if (l->timer_fd >= 0)
        (void)close(l->timer_fd);
    lk_seat_close(l);
    if (l->fork_page != NULL)
        (void)munmap(l->fork_page, l->fork_page_size);
    free(l->heap);
    free(l->buckets);
    free(l->owner);
    (void)pthread_cond_destroy(&l->changed);
    (void)pthread_mutex_destroy(&l->mutex);
    free(l);
}

void lk_handle_gone(locker *l)
{
    if (atomic_fetch_sub_explicit(&l->owed, 1, memory_order_acq_rel) == 1)
        destroy(l);
}

void lk_user_gone(locker *l)
{
    int64_t made = (int64_t)l->handles; /* constant now */

    if (atomic_fetch_add_explicit(&l->owed, made, memory_order_acq_rel) + made == 0)
        destroy(l);
}

static int watch(const locker *l, int fd, const int *what, uint32_t how)
{
    struct epoll_event event = {.events = EPOLLIN | how, .data.ptr = (void *)(uintptr_t)what};

    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

static locker *make(const lk_config *config, const locker_options *options, const locker_clock *clock)
{
    locker *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->services = lk_services;
    l->clock = clock != NULL ? clock : locker_system_clock();
    l->services.clock = l->clock;
    l->driver = config->driver;
    l->ttl_ns = config->ttl_ns;
    l->command_timeout_ns = config->command_timeout_ns;
    l->owner = strdup(config->owner);
    l->bucket_count = LK_FIRST_BUCKETS;
    l->buckets = calloc(LK_FIRST_BUCKETS, sizeof *l->buckets);
    if (options != NULL) {
        l->log = options->log;
        l->log_user = options->log_user;
        l->log_level = options->log_level != 0 ? options->log_level : LOCKER_LOG_WARN;
    }
    l->driver_fd = l->seat_fd = l->rouse_fd = -1;
    l->lost_end = &l->lost;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->timer_fd = lk_timer_new(l->clock);
    l->timer_at = LOCKER_NEVER;
    (void)pthread_mutex_init(&l->mutex, NULL);
    (void)pthread_cond_init(&l->changed, NULL);
    watch_forks(l);
    return l;
}

/* What to do about a limit of the system. */
static const char *limit_advice(int os_error)
{
    switch (os_error) {
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    case EAGAIN: /* of pthread_create() */
        return "raise the limit on processes and threads (ulimit -u, or TasksMax= of a service)";
    case ENOSPC:
        return "raise fs.epoll.max_user_watches";
    default:
        return "free memory";
    }
}

static locker_status open_driver(locker *l, const lk_config *config, locker_error *err)
{
    const locker_driver_config c = {
        .scheme = config->scheme,
        .user = config->user,
        .password = config->password,
        .hosts = config->hosts,
        .host_count = config->host_count,
        .path = config->path,
        .name_space = config->name_space,
        .owner = config->owner,
        .values = config->values,
        .connect_timeout_ns = config->connect_timeout_ns,
        .command_timeout_ns = config->command_timeout_ns,
        .cleanup_ns = config->cleanup_ns,
        .ttl_ns = config->ttl_ns,
    };
    locker_status status = l->driver->open(&c, &l->services, &l->self, err);
    int rc;

    if (status != LOCKER_OK)
        return status;
    l->driver_fd = l->driver->descriptor != NULL ? l->driver->descriptor(l->self) : -1;
    rc = l->driver_fd < 0 ? 0 : watch(l, l->driver_fd, &l->driver_fd, 0);
    if (rc == 0)
        rc = lk_seat_open(l);
    if (rc == 0)
        rc = lk_keeper_start(l);
    if (rc == 0)
        return LOCKER_OK;
    l->driver->close(l->self);
    return locker_error_set(err, LOCKER_UNAVAILABLE, rc,
                            "can't start the keeper thread or its descriptors: %s; %s", strerror(rc),
                            limit_advice(rc));
}

/* Which service it is; what is quoted of the configuration was checked not to be a password. */
static void tell_opened(locker *l, const lk_config *config)
{
    bool path = config->host_count == 0 && strchr(config->path, ':') == NULL;
    char text[256];
    int n = snprintf(text, sizeof text, "%s:%s", config->scheme, path ? config->path : "");

    for (size_t i = 0; i < config->host_count && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, config->hosts[i].port != 0 ? "%s%s:%d" : "%s%s",
                      i == 0 ? "//" : ",", config->hosts[i].name, config->hosts[i].port);
    l->services.log(&l->services, LOCKER_LOG_INFO, "the locks are kept by %s", text);
}

locker_status lk_open(lk_config *config, const locker_options *options, const locker_clock *clock,
                      locker **out, locker_error *err)
{
    locker *l = NULL;
    locker_status status = lk_config_finish(config, options, err);
    int rc = 0;

    if (status != LOCKER_OK)
        goto out;
    l = make(config, options, clock);
    if (l == NULL || l->owner == NULL || l->buckets == NULL) {
        status = locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while opening a locker");
        goto out;
    }
    rc = l->epoll_fd < 0 || l->kick_fd < 0 || (l->timer_fd < 0 && l->clock == locker_system_clock())
             ? errno
             : watch(l, l->kick_fd, &l->kick_fd, 0);
    if (rc == 0 && l->timer_fd >= 0)
        rc = watch(l, l->timer_fd, &l->timer_fd, EPOLLET); /* an edge need not be read */
    if (rc != 0) {
        status = locker_error_set(err, LOCKER_UNAVAILABLE, rc, "can't make the keeper's descriptors: %s; %s",
                                  strerror(rc), limit_advice(rc));
        goto out;
    }
    status = open_driver(l, config, err);
out:
    if (status == LOCKER_OK) {
        *out = l;
        tell_opened(l, config);
        (void)lk_ok(err);
    } else if (l != NULL) {
        destroy(l);
    }
    lk_config_clear(config);
    return status;
}

/* ------------------------------------------------------------------ keys and labels ---- */

/* The length of the UTF-8 character at s, or 0: overlong forms, surrogates and what lies past U+10FFFF are
 * none (RFC 3629). */
static size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
               : (s[0] & 0xF0) == 0xE0       ? 3
               : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                             : 0;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

/* Whether eight bytes are ASCII without control characters.
 * (https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord) */
static bool plain_word(const unsigned char *s)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t word, below_space, is_delete;

    memcpy(&word, s, sizeof word);
    below_space = word - each * 0x20;
    is_delete = (word ^ each * 0x7F) - each;
    return ((word | below_space | is_delete) & each * 0x80) == 0;
}

/* Whether all is, as in nearly every key; eight bytes at a time, the last ones some perhaps again. */
static bool plain(const unsigned char *s, size_t n)
{
    size_t i = 0;

    if (n < 8)
        return false; /* not worth the trouble */
    while (i < n - 8 && plain_word(s + i))
        i += 8;
    return i >= n - 8 && plain_word(s + n - 8);
}

static locker_status check_text(const char *text, size_t most, const char *what, size_t *length,
                                locker_error *err)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = text == NULL ? 0 : strnlen(text, most + 1);

    if (n == 0 || n > most)
        return locker_error_set(err, LOCKER_INVALID, 0, "%s is %s: give 1 to %zu bytes", what,
                                text == NULL ? "missing"
                                : n == 0     ? "empty"
                                             : "too long",
                                most);
    *length = n;
    if (plain(s, n))
        return LOCKER_OK;
    for (size_t i = 0, step; i < n; i += step) {
        step = utf8_length(s + i);
        if (step == 0)
            return locker_error_set(err, LOCKER_INVALID, 0, "%s is not UTF-8 (byte %zu is 0x%02x)", what,
                                    i + 1, s[i]);
        if (s[i] < 0x20 || s[i] == 0x7F)
            return locker_error_set(err, LOCKER_INVALID, 0, "%s has a control character (byte %zu is 0x%02x)",
                                    what, i + 1, s[i]);
    }
    return LOCKER_OK;
}

locker_status lk_check_key(const locker *l, const char *key, size_t *length, locker_error *err)
{
    locker_status status = check_text(key, LOCKER_KEY_MAX, "the key", length, err);

    if (status == LOCKER_OK && l->driver->check_key != NULL)
        status = l->driver->check_key(l->self, key, *length, err);
    return status;
}

locker_status lk_check_label(const char *owner, const char *what, locker_error *err)
{
    size_t length;

    return check_text(owner, LOCKER_OWNER_MAX, what, &length, err);
}
