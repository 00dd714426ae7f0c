/* lifetime.c: a locker's memory and descriptors: made when it is opened, freed when the last that refers to it has gone.
 *
 * The keeper's epoll has a wake-up, a timer, the driver's descriptor (also when a leader watches it, silenced then) and
 * those of cancels in use. The leader's has the driver's descriptor and a wake-up of its own. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>

#include "frame.h"
#include "lifetime.h"
#include "lk_fd.h"
#include "lk_wakeup.h"

static int add(int epoll_fd, const int *fd, uint32_t how)
{
    struct epoll_event event = {.events = EPOLLIN | how, .data.ptr = (void *)(uintptr_t)fd};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0 ? 0 : errno;
}

int lk_descriptors_open(locker *l)
{
    const locker_clock *const c = &l->clock, *const system = locker_system_clock();
    const bool timed = c->now == system->now && c->wait == system->wait && c->poll == system->poll;
    l->timer_at = LOCKER_NEVER;
    if ((l->epoll_fd = lk_fd_high(epoll_create1(EPOLL_CLOEXEC))) < 0 ||
        (l->keeper_wakeup_fd = lk_wakeup_new()) < 0 ||
        (timed && (l->timer_fd = lk_fd_high(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK))) < 0))
        return errno;
    const int rc = add(l->epoll_fd, &l->keeper_wakeup_fd, 0);
    return rc != 0 || !timed ? rc : add(l->epoll_fd, &l->timer_fd, EPOLLET); /* an edge need not be read */
}

static int add_leader(locker *l)
{
    if ((l->leader_fd = lk_fd_high(epoll_create1(EPOLL_CLOEXEC))) < 0 ||
        (l->leader_wakeup_fd = lk_wakeup_new()) < 0)
        return errno;
    const int rc = add(l->leader_fd, &l->driver_fd, 0);
    return rc != 0 ? rc : add(l->leader_fd, &l->leader_wakeup_fd, 0);
}

int lk_descriptors_add_driver(locker *l)
{
    l->driver_fd = l->driver->descriptor != NULL ? l->driver->descriptor(l->self) : -1;
    if (l->driver_fd < 0)
        return 0;
    const int rc = add(l->epoll_fd, &l->driver_fd, 0);
    return rc != 0 || l->driver->dispatch == NULL ? rc : add_leader(l);
}

void lk_descriptors_close(locker *l)
{
    int *const ours[] = {&l->epoll_fd, &l->keeper_wakeup_fd, &l->timer_fd, &l->leader_fd,
                         &l->leader_wakeup_fd};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (*ours[i] >= 0)
            (void)close(*ours[i]);
        *ours[i] = -1;
    }
}

/* A page that the kernel wipes in a fork's child tells the child apart without a system call (madvise(2),
 * MADV_WIPEONFORK, Linux 4.14). Where it can't be had, the process id does. One byte stands for its page here. */
static void watch_forks(locker *l)
{
    char *const page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    l->pid = getpid();
    if (page == MAP_FAILED)
        return;
    if (madvise(page, 1, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, 1);
        return;
    }
    *page = 1;
    l->fork_page = page;
}

/* Nobody else knows it yet. */
LK_UNCHECKED locker *lk_locker_new(const lk_config *config, const locker_options *options,
                                   const locker_clock *clock)
{
    locker *const l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->services = lk_services;
    l->clock = clock != NULL ? *clock : *locker_system_clock();
    l->services.clock = &l->clock;
    l->given = config->driver;
    l->driver = &l->table;
    l->ttl_ns = config->pub.ttl_ns;
    l->command_timeout_ns = config->pub.command_timeout_ns;
    l->log = options->log;
    l->log_user = options->log_user;
    l->log_level = options->log_level != 0 ? options->log_level : LOCKER_LOG_WARN;
    l->epoll_fd = l->keeper_wakeup_fd = l->timer_fd = l->driver_fd = l->leader_fd = l->leader_wakeup_fd = -1;
    lk_list_init(&l->held);
    lk_list_init(&l->lost);
    lk_list_init(&l->log_lines);
    lk_list_init(&l->waits);
    lk_list_init(&l->cancelable);
    lk_mutex_init(&l->mutex);
    pthread_cond_init(&l->changed, NULL);
    watch_forks(l);
    l->owner = strdup(config->pub.owner);
    l->service = lk_config_service(config);
    l->origin = lk_config_printable(config->origin != NULL ? config->origin : "named by the program");
    if (l->owner != NULL && l->service != NULL && l->origin != NULL && lk_table_reserve(&l->keys))
        return l;
    lk_locker_free(l);
    return NULL;
}

/* Nobody else knows it any more. */
LK_UNCHECKED void lk_locker_free(locker *l)
{
    LK_NO_CANCEL;
    lk_descriptors_close(l);
    if (l->fork_page != NULL)
        (void)munmap(l->fork_page, 1);
    free(l->heap);
    lk_table_destroy(&l->keys);
    free(l->owner);
    free(l->service);
    free(l->origin);
    pthread_cond_destroy(&l->changed);
    lk_mutex_destroy(&l->mutex);
    free(l);
}

void lk_locker_owe(locker *l, int64_t handles)
{
    if (atomic_fetch_add_explicit(&l->owed, handles, memory_order_acq_rel) + handles == 0)
        lk_locker_free(l);
}
