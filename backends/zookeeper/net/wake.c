/* wake.c: the mutex, what is done before it is released, and who is to look again: a thread that drives, the keeper. */
#include <stdarg.h>
#include <stdio.h>

#include "lk_wakeup.h"
#include "socket.h"
#include "state.h"
#include "wake.h"

void lk_zk_kick_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    if (net->polling)
        lk_wakeup_ring(net->kick_fd);
}

void lk_zk_keeper_by_locked(lk_zk_net *net, int64_t at) LK_REQUIRES(*net)
{
    if (net->keeper_at <= at)
        return;
    net->keeper_at = at;
    net->svc->attend(net->svc);
}

int64_t lk_zk_keeper_next_locked(lk_zk_net *net, int64_t next) LK_REQUIRES(*net)
{
    net->keeper_at = lk_time_earlier(net->keeper_at, next);
    return net->keeper_at;
}

/* ------------------------------------------------------------------ log lines ---- */

void lk_zk_note_locked(lk_zk_net *net, locker_log_level level, const char *format, ...) LK_REQUIRES(*net)
{
    va_list arguments;
    if (!net->svc->log_wanted(net->svc, level))
        return;
    va_start(arguments, format);
    (void)vsnprintf(net->note, sizeof(net->note), format, arguments);
    va_end(arguments);
    net->note_level = level;
    net->log_due = true;
    net->svc->attend(net->svc); /* the keeper writes it, if nobody does before */
}

/* A function of its own, so that those who have nothing to write need no room for it. */
__attribute__((noinline)) static void write_note_and_unlock(lk_zk_net *net) LK_RELEASE(*net)
{
    char note[LOCKER_ERROR_TEXT_MAX];
    const locker_log_level level = net->note_level;
    (void)snprintf(note, sizeof(note), "%s", net->note);
    net->log_due = false;
    lk_zk_net_unlock(net);
    net->svc->log(net->svc, level, "%s", note);
}

/* ------------------------------------------------------------------ the mutex ---- */

void lk_zk_enter(lk_zk_net *net)
{
    lk_zk_net_lock(net);
}

void lk_zk_leave(lk_zk_net *net)
{
    lk_zk_push_locked(net);
    if (net->log_due)
        write_note_and_unlock(net);
    else
        lk_zk_net_unlock(net);
}
