/* file.c: the file driver's table, and the life of an instance. See instance.h for the other parts. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "directory.h"
#include "instance.h"
#include "lk_fd.h"
#include "sweep.h"
#include "watch.h"

enum { SHARED, SYNC }; /* in the order of the table */

static const locker_parameter params[] = {
    [SHARED] = {"shared", LOCKER_PARAM_BOOL, "no", 0, 0,
                "share the locks with the directory's group; lock files get mode 0660"},
    [SYNC] = {"sync", LOCKER_PARAM_BOOL, "no", 0, 0,
              "flush each fencing token to the disk; otherwise tokens start again from the clock after a "
              "crash of the host"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

/* The path without what would make open() follow a link at its end. The caller frees it. */
static char *clean_path(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && (path[len - 1] == '/' || (path[len - 1] == '.' && path[len - 2] == '/')))
        len--;
    return strndup(path, len);
}

static locker_status check_config(const locker_driver_config *config, locker_error *err)
{
    const char *host = config->host_count > 0 ? config->hosts[0].name : "";
    if (config->host_count > 1 || (*host != '\0' && strcmp(host, "localhost") != 0) ||
        (config->host_count > 0 && config->hosts[0].port != 0))
        return lk_misconfigured(err, "a file URI has no host except \"localhost\", and no port; write "
                                     "file:///path/to/directory, with three slashes");
    if (config->path[0] != '/')
        return lk_misconfigured(err, "the file driver needs the absolute path of a directory; write "
                                     "file:///path/to/directory, or path = /path/to/directory in a profile");
    if (strlen(config->path) + 1 + LK_FILE_PATH_MAX > PATH_MAX)
        return lk_misconfigured(err, "the lock directory's path is too long; use at most %d bytes",
                                PATH_MAX - 1 - LK_FILE_PATH_MAX);
    if (strlen(config->name_space) > LK_FILE_NAMESPACE_MAX)
        return lk_misconfigured(err, "the namespace is too long for file names; use at most %d bytes",
                                LK_FILE_NAMESPACE_MAX);
    return LOCKER_OK;
}

/* Nothing else uses it any more. */
LK_UNCHECKED static void file_close(void *self_)
{
    lk_file *self = self_;
    lk_file_forks_leave(self);
    lk_table_destroy(&self->watches);
    lk_file_slots_destroy(&self->slots);
    const int fds[] = {self->watch_fd, self->epoll_fd, self->dir_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    lk_mutex_destroy(&self->mutex);
    free(self->prefix);
    free(self->path);
    free(self);
}

static void file_end(void *self)
{
    lk_file_sweep_close(self);
    file_close(self);
}

/* Nobody else sees it yet. */
LK_UNCHECKED static locker_status file_open(const locker_driver_config *config, const locker_services *svc,
                                            void **out, locker_error *err)
{
    locker_status status = check_config(config, err);
    if (status != LOCKER_OK)
        return status;
    lk_file *self = calloc(1, sizeof *self);
    if (self == NULL)
        return lk_out_of_memory(err);
    self->svc = svc;
    self->uid = geteuid();
    lk_file_touch_later_locked(self);
    self->look_at = LOCKER_NEVER;
    self->dir_fd = self->epoll_fd = self->watch_fd = self->inotify_fd = self->dir_wd = self->above_wd = -1;
    lk_list_init(&self->claims);
    self->shared = config->values[SHARED].number != 0;
    self->sync = config->values[SYNC].number != 0;
    lk_file_record_template(self->template);
    lk_mutex_init(&self->mutex);
    lk_file_sweep_init(self);
    self->path = clean_path(config->path);
    self->prefix = lk_file_prefix_new(config->name_space);
    (void)stat("/", &self->root); /* can't fail */
    status = self->path == NULL || self->prefix == NULL
                 ? lk_out_of_memory(err)
                 : lk_file_directory_open(self->path, self->shared, &self->dir_fd, err);
    if (status == LOCKER_OK &&
        ((self->epoll_fd = lk_fd_high(epoll_create1(EPOLL_CLOEXEC))) < 0 ||
         (self->watch_fd = fcntl(self->dir_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) < 0))
        status = locker_error_set(
            err, LOCKER_UNAVAILABLE, errno,
            "cannot create a descriptor for events: %s; raise the limit on open files (ulimit -n)",
            strerror(errno));
    if (status == LOCKER_OK && !lk_file_forks_join(self))
        status = lk_out_of_memory(err);
    if (status == LOCKER_OK)
        *out = self;
    else
        file_close(self);
    return status;
}

/* A child's copies of lock descriptors would keep a dead parent's locks; they are closed here. Memory stays:
 * the child ends soon, and another thread of the parent may have been changing it. */
LK_UNCHECKED static void file_abandon(void *self_)
{
    lk_file *self = self_;
    lk_file_slots_abandon(&self->slots);
    close(self->watch_fd);
    close(self->epoll_fd);
    close(self->dir_fd);
}

static locker_status file_ping(void *self_, int64_t until, locker_error *err)
{
    (void)until;
    lk_file *self = self_;
    locker_status status = lk_file_stay(self, err);
    if (status != LOCKER_OK)
        return status;
    const int code = lk_file_directory_compare(self);
    if (code != 0)
        return locker_error_set(err, LOCKER_UNAVAILABLE, code, "cannot check the lock directory %.200s: %s",
                                self->path, strerror(code));
    return LOCKER_OK;
}

static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "file",
    .scope = LOCKER_SCOPE_HOST,
    .fairness = LOCKER_FAIR_GLOBAL,
    .tokens_persist = true,
    .can_break = true,
    .shared = LOCKER_ORDER_ARRIVAL,
    .permits_most = LOCKER_PERMITS_MAX,
    .holder_dies = "The kernel frees the lock at once. If the holder has forked children, the lock lasts "
                   "until they have ended, called exec or closed the locker.",
    .holder_stalls = "The holder keeps the lock, unless locker_break() ends it.",
    .cut_off = "Cannot happen: there is no network.",
    .service_restarts = "There is no service. A restart of the host frees all locks.",
    .failover = "There is no failover.",
    .token =
        "The last token plus 1, or the clock in microseconds if that is greater. A token can repeat only if "
        "the clock is set back after a loss of the lock file or a crash of the host.",
    .cost = "A lock needs 1 descriptor and about 14 system calls, a shared lock or permit 2 descriptors and "
            "about 40 calls, a waiter 3 descriptors. Each key has a small file. The driver removes unused "
            "files: at most 1,024 stay.",
};

const locker_driver lk_file_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "file",
    .schemes = (const char *const[]){"file", NULL},
    .example = "file:///run/lock/shop",
    .features = "",
    .caps = LOCKER_CAP_QUEUE,
    .claim_size = sizeof(lk_file_claim),
    .params = params,
    .semantics = &semantics,
    .open = file_open,
    .close = file_end,
    .abandon = file_abandon,
    .acquire = lk_file_acquire,
    .withdraw = lk_file_withdraw,
    .release = lk_file_release,
    .descriptor = lk_file_descriptor,
    .dispatch = lk_file_dispatch,
    .show = lk_file_show,
    .break_lock = lk_file_break,
    .ping = file_ping,
    .keep_over_exec = lk_file_keep_over_exec,
};
