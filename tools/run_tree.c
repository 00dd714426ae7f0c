/* run_tree.c: everything that the command started, however far it went: setsid(1), timeout(1), double forks and a locker run
 * inside the command included. We are the reaper of orphans ("child subreaper"), so the chain of parents leads from each of
 * those processes to us, and /proc shows it: by lists of children, so that a walk costs what the tree costs, however many
 * other processes there are, or, where the kernel has none (CONFIG_PROC_CHILDREN), by the parents of all processes. A walk
 * is no snapshot: a process that forks meanwhile can be missed. So what is to end is first stopped, until a walk finds nothing
 * new, and then killed, until the kernel says that we have no living child. A process that does nothing but start a successor
 * and end can be missed by every walk; it stays in its process group, and a signal to a group misses none.
 * A direct child keeps its number until we reap it, here or in run_child.c. Another process is signalled through a pidfd,
 * after a second look at /proc has shown that the pidfd is that of the process that the walk found. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_parts.h"

enum { STOP_WALKS = 50, SPARES = sizeof((lk_run_tree){0}).spares / sizeof(int) };

/* Whether we have a child that lives: the kernel does not count zombies when it is not asked about exits. */
static bool have_living_child(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

/* Read /proc/PID/stat: "PID (COMMAND) STATE PARENT GROUP ...". False: there is no such process any more. */
static bool read_process(const lk_run_tree *t, pid_t pid, lk_run_process *p)
{
    enum { PARENT = 4, GROUP = 5, SESSION = 6, THREADS = 20, START = 22 }; /* fields of proc_pid_stat(5) */
    char path[32], text[1024];
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    const int fd = openat(dirfd(t->proc), path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    char *const open = strchr(text, '('), *const end = strrchr(text, ')'); /* COMMAND may hold both */
    if (!open || !end)
        return false;
    *p = (lk_run_process){.pid = pid};
    *end = '\0';
    snprintf(p->command, sizeof p->command, "%s", open + 1);
    char *at = end + 2; /* " STATE PARENT ..." */
    if (end[1] != ' ' || *at == '\0')
        return false;
    const char state = *at++;
    unsigned long long fields[START + 1] = {0}; /* negative ones wrap, and are not used */
    for (int i = PARENT; i <= START; i++) {
        char *const before = at;
        fields[i] = strtoull(at, &at, 10);
        if (at == before)
            return false;
    }
    p->parent = (pid_t)fields[PARENT];
    p->group = (pid_t)fields[GROUP];
    p->session = (pid_t)fields[SESSION];
    p->start = fields[START];
    p->threads = (long)fields[THREADS];
    p->zombie = (state == 'Z' || state == 'X') && p->threads <= 1; /* else only the first thread has ended */
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const lk_run_process *const one = a, *const other = b;
    return (one->pid > other->pid) - (one->pid < other->pid);
}

/* `list`, with room for one element more; NULL: out of memory, and it stays as it is. */
static void *room_for(void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return list;
    const size_t more = *room ? 2 * *room : 256;
    void *const grown = realloc(list, more * size);
    if (grown)
        *room = more;
    return grown;
}

/* Add a process to `found`. False: out of memory. */
static bool add_found(lk_run_tree *t, lk_run_process p)
{
    lk_run_process *const grown = room_for(t->found, t->found_count, &t->found_room, sizeof p);
    if (!grown)
        return false;
    t->found = grown;
    t->found[t->found_count++] = p;
    return true;
}

/* What is remembered of that process; NULL: nothing yet. */
static lk_run_mark *recall(const lk_run_tree *t, const lk_run_process *p)
{
    for (size_t i = 0; i < t->marks_count; i++)
        if (t->marks[i].pid == p->pid && t->marks[i].start == p->start)
            return &t->marks[i];
    return NULL;
}

/* Its mark, a new one if it has none; NULL: out of memory. */
static lk_run_mark *mark(lk_run_tree *t, const lk_run_process *p)
{
    lk_run_mark *const known = recall(t, p);
    if (known)
        return known;
    lk_run_mark *const grown = room_for(t->marks, t->marks_count, &t->marks_room, sizeof *t->marks);
    if (!grown)
        return NULL;
    t->marks = grown;
    t->marks[t->marks_count] = (lk_run_mark){.pid = p->pid, .start = p->start};
    return &t->marks[t->marks_count++];
}

/* Free the descriptors that were kept for a walk and its pidfds. */
static void use_spares(lk_run_tree *t)
{
    for (size_t i = 0; i < SPARES; i++)
        if (t->spares[i] >= 0)
            close(t->spares[i]);
    memset(t->spares, -1, sizeof t->spares);
}

/* Whether it was our child before the command started. */
static bool was_before(const lk_run_tree *t, const lk_run_process *p)
{
    const lk_run_mark *const known = t->others ? recall(t, p) : NULL;
    return known && known->before;
}

/* A walk that was told until when does not go on past it: those that it has found are to be signalled then. */
static bool is_late(const lk_run_tree *t)
{
    return t->until_ms != 0 && lk_cli_now_ms(CLOCK_BOOTTIME) >= t->until_ms;
}

/* The process or thread that an entry of /proc is about; 0: none. */
static pid_t number_of(const struct dirent *entry)
{
    return (pid_t)strtol(entry->d_name, NULL, 10);
}

/* Read all processes of the machine. */
static void read_all(lk_run_tree *t)
{
    t->found_count = 0;
    if (!t->proc)
        return;
    rewinddir(t->proc);
    lk_run_process p;
    for (const struct dirent *entry; !is_late(t) && (entry = readdir(t->proc)) != NULL;)
        if (number_of(entry) > 0 && read_process(t, number_of(entry), &p) && !add_found(t, p))
            break;
}

static void sort(lk_run_tree *t)
{
    if (t->found_count > 0)
        qsort(t->found, t->found_count, sizeof *t->found, by_pid);
}

/* Mark the processes whose parent is this one or is marked. False: there was none more. What was there before the command,
 * and what descends from it, stays unmarked. */
static bool mark_children(lk_run_tree *t)
{
    bool more = false;
    for (size_t i = 0; i < t->found_count; i++) {
        lk_run_process *const p = &t->found[i], key = {.pid = p->parent};
        if (p->ours || p->before)
            continue;
        const lk_run_process *const parent = bsearch(&key, t->found, t->found_count, sizeof key, by_pid);
        p->ours = p->parent == getpid() || (parent && parent->ours);
        more = more || p->ours;
    }
    return more;
}

/* Leave in `found` those that are ours. */
static void keep_ours(lk_run_tree *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->found_count; i++)
        if (t->found[i].ours)
            t->found[kept++] = t->found[i];
    t->found_count = kept;
}

/* Find the processes that descend from us, by the parents of all processes. */
static void search_all(lk_run_tree *t)
{
    read_all(t);
    sort(t);
    for (size_t i = 0; i < t->found_count; i++)
        t->found[i].before = was_before(t, &t->found[i]);
    while (mark_children(t))
        continue;
    keep_ours(t);
}

/* Add what that list has: only the numbers of the processes and of their parent. False: there is no such list. */
static bool add_list(lk_run_tree *t, pid_t parent, pid_t thread)
{
    char path[64];
    snprintf(path, sizeof path, "%d/task/%d/children", (int)parent, (int)thread);
    const int fd = openat(dirfd(t->proc), path, O_RDONLY | O_CLOEXEC);
    FILE *const list = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!list) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    for (char number[16]; fscanf(list, "%15s", number) == 1;)
        if (!add_found(t, (lk_run_process){.pid = (pid_t)strtol(number, NULL, 10), .parent = parent}))
            break;
    fclose(list);
    return true;
}

/* Add the children of all threads of that process. False: no list could be read. */
static bool add_children(lk_run_tree *t, pid_t parent, bool alone)
{
    char path[32];
    bool any = false;
    if (alone)
        return add_list(t, parent, parent);
    snprintf(path, sizeof path, "%d/task", (int)parent);
    const int fd = openat(dirfd(t->proc), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const threads = fd >= 0 ? fdopendir(fd) : NULL;
    if (!threads && fd >= 0)
        close(fd);
    for (const struct dirent *entry; threads && (entry = readdir(threads)) != NULL;)
        if (number_of(entry) > 0)
            any = add_list(t, parent, number_of(entry)) || any;
    if (threads)
        closedir(threads);
    return any;
}

/* Find the processes that descend from us, by the lists of children. A number that meanwhile is another's has another parent.
 * False: there are no such lists. */
static bool search_down(lk_run_tree *t)
{
    t->found_count = 0;
    if (!t->proc || !add_children(t, getpid(), false))
        return !t->proc;
    for (size_t i = 0; i < t->found_count && !is_late(t); i++) {
        const pid_t parent = t->found[i].parent;
        lk_run_process p;
        if (!read_process(t, t->found[i].pid, &p)) {
            if (parent != getpid()) /* it has ended, and is no zombie of ours */
                continue;
            /* another user's, with hidepid of proc(5) */
            p = (lk_run_process){
                .pid = t->found[i].pid, .parent = parent, .group = getpgrp(), .command = "?"};
        }
        if ((p.parent != parent && p.parent != getpid()) || was_before(t, &p))
            continue;
        p.ours = true;
        t->found[i] = p;
        if (!p.zombie)
            add_children(t, p.pid, p.threads == 1);
    }
    keep_ours(t);
    sort(t);
    return true;
}

/* Whether found[at] is the one of its group by way of which that is signalled: the leader, or the first where there is none. */
static bool stands_for_group(const lk_run_tree *t, size_t at, const lk_run_process *leader)
{
    const pid_t group = t->found[at].group;
    if (leader && leader->group == group)
        return leader == &t->found[at];
    while (at > 0)
        if (t->found[--at].group == group)
            return false;
    return true;
}

/* Mark one process of each group in which there is none but ours, as a signal to a group takes the longer the more it has. A
 * process of ours has made it: the leader, if we know it, or whoever began another session than ours. As long as there is a
 * group, no process gets its number. */
static void mark_groups(lk_run_tree *t)
{
    const pid_t session = getsid(0), group = getpgrp();
    for (size_t i = 0; i < t->found_count; i++) {
        lk_run_process *const p = &t->found[i], key = {.pid = p->group};
        const lk_run_process *const leader = bsearch(&key, t->found, t->found_count, sizeof key, by_pid);
        const bool ours = p->group != group && (p->session != session || p->group == t->command || leader);
        p->own_group = ours && stands_for_group(t, i, leader);
    }
}

/* Leave in `found` the processes that descend from us. */
static void walk(lk_run_tree *t)
{
    const int64_t start = lk_cli_now_ms(CLOCK_MONOTONIC);
    use_spares(t);
    if (!search_down(t))
        search_all(t);
    mark_groups(t);
    t->walk_ms = lk_cli_now_ms(CLOCK_MONOTONIC) - start;
}

/* Reap zombies among our children, but for the command: their numbers, and those of their groups, are free afterwards. */
static void reap(lk_run_tree *t)
{
    for (size_t i = 0; i < t->found_count; i++)
        if (t->found[i].zombie && t->found[i].parent == getpid() && t->found[i].pid != t->command)
            waitpid(t->found[i].pid, NULL, WNOHANG);
}

/* Send it to the process groups that hold none but ours, be it zombies: the next of them may be on its way. */
static void signal_groups(const lk_run_tree *t, int number)
{
    for (size_t i = 0; i < t->found_count; i++)
        if (t->found[i].own_group)
            kill(-t->found[i].group, number);
}

/* As kill(), to the very process that the walk found. */
static int send_signal(const lk_run_tree *t, const lk_run_process *p, int number)
{
    if (p->parent == getpid()) /* its number is its own until we reap it */
        return kill(p->pid, number);
    const int fd = pidfd_open(p->pid, 0);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? kill(p->pid, number) : -1;
    lk_run_process now;
    int result = 0;
    if (read_process(t, p->pid, &now) && now.start == p->start)
        result = pidfd_send_signal(fd, number, NULL, 0);
    const int error = errno;
    close(fd);
    errno = error;
    return result;
}

/* Send it, and report once a process that we are not allowed to signal. True if it may have come through. */
static bool deliver(lk_run *r, const lk_run_process *p, int number)
{
    lk_run_tree *const t = &r->tree;
    const bool refused = send_signal(t, p, number) != 0 && errno == EPERM;
    lk_run_mark *const m = mark(t, p);
    if (refused && m && !m->refused) {
        lk_run_event(r, "refused", "{s:i, s:o}", "pid", (int)p->pid, "command", lk_cli_json_text(p->command));
        lk_cli_message(
            "cannot signal process %d (%s) of the command, because it runs as another user; %s '%s' %s",
            (int)p->pid, p->command, r->stopped ? "it continues, although the lock" : "the lock",
            r->options.key, r->stopped ? "is lost" : "is kept while it lives");
    }
    if (m) /* CONT may come through within a session */
        m->refused = m->refused || refused;
    return !refused;
}

/* NULL: there is none, or it numbers processes in another way than the kernel does to us (`unshare -p` without a mount). */
static DIR *open_proc(void)
{
    char self[16] = "";
    DIR *const proc = opendir("/proc");
    if (!proc ||
        (readlinkat(dirfd(proc), "self", self, sizeof self - 1) > 0 && strtol(self, NULL, 10) == getpid()))
        return proc;
    closedir(proc);
    return NULL;
}

int lk_run_tree_begin(lk_run *r)
{
    lk_run_tree *const t = &r->tree;
    *t = (lk_run_tree){.proc = open_proc(), .command = -1};
    for (size_t i = 0; i < SPARES; i++)
        t->spares[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (t->spares[SPARES - 1] < 0)
        return errno;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!have_living_child())
        return 0;
    walk(t);
    t->others = t->found_count > 0;
    for (size_t i = 0; i < t->found_count; i++) {
        lk_run_mark *const m = mark(t, &t->found[i]);
        if (m)
            m->before = true;
    }
    return 0;
}

bool lk_run_tree_lives(lk_run *r)
{
    lk_run_tree *const t = &r->tree;
    if (!have_living_child())
        return false;
    if (!t->others)
        return true;
    walk(t);
    bool lives = false;
    for (size_t i = 0; i < t->found_count && !lives; i++)
        lives = !t->found[i].zombie;
    return lives;
}

void lk_run_tree_signal(lk_run *r, const lk_run_child *child, int number, bool orphans_only)
{
    lk_run_tree *const t = &r->tree;
    walk(t);
    for (size_t i = 0; i < t->found_count; i++) {
        const lk_run_process *const p = &t->found[i];
        const bool reached = p->pid == child->pid || (child->group && p->group == child->pid);
        if (p->zombie)
            continue;
        lk_run_mark *const m = mark(t, p);
        if (reached) /* with its group; zero asks whether we were allowed to */
            deliver(r, p, 0);
        else if (m && !m->signalled && (p->parent == getpid() || !orphans_only)) {
            m->signalled = true;
            deliver(r, p, number);
            deliver(r, p, SIGCONT);
        }
    }
    reap(t);
}

/* Stop what a walk finds and none before it has found. Returns how many these were. */
static size_t stop_more(lk_run *r)
{
    lk_run_tree *const t = &r->tree;
    size_t more = 0;
    walk(t);
    signal_groups(t, SIGSTOP);
    for (size_t i = 0; i < t->found_count; i++) {
        lk_run_mark *const m = t->found[i].zombie ? NULL : mark(t, &t->found[i]);
        if (!m || m->stopped)
            continue;
        m->stopped = true;
        more += deliver(r, &t->found[i], SIGSTOP);
    }
    return more;
}

void lk_run_tree_kill_known(lk_run *r)
{
    lk_run_tree *const t = &r->tree;
    use_spares(t);
    for (size_t i = 0; i < t->marks_count; i++)
        if (!t->marks[i].before)
            send_signal(t, &(lk_run_process){.pid = t->marks[i].pid, .start = t->marks[i].start}, SIGKILL);
}

bool lk_run_tree_kill(lk_run *r)
{
    lk_run_tree *const t = &r->tree;
    size_t killed = 0, refused = 0;
    for (int i = 0; i < STOP_WALKS && stop_more(r) > 0; i++)
        continue;
    signal_groups(t, SIGKILL);
    for (size_t i = 0; i < t->found_count; i++) {
        const bool came_through = !t->found[i].zombie && deliver(r, &t->found[i], SIGKILL);
        killed += came_through;
        refused += !t->found[i].zombie && !came_through;
    }
    reap(t);
    return killed == 0 && (refused > 0 || !t->proc);
}

void lk_run_tree_end(lk_run *r)
{
    lk_run_tree *const t = &r->tree;
    use_spares(t);
    if (t->proc)
        closedir(t->proc);
    free(t->found);
    free(t->marks);
    *t = (lk_run_tree){.proc = NULL};
}
