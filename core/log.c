/* log.c: lines on their way to the application's log callback.
 *
 * Who logs may hold a driver's lock, and the callback must be called with none. So lines are kept, and told by the thread
 * that runs callbacks: the keeper, before it the opener, and after it the closer. Lines are told in the order in which they
 * were kept. At most LINES_AT_MOST are kept while as many are being told, which is 2 MB with the longest lines; what comes
 * while a callback is slower is counted, and the number told. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "frame.h"
#include "lk_printable.h"

enum { LINES_AT_MOST = 1024, LINE_SIZE = 1024 };

typedef struct {
    lk_list link;
    locker_log_level level;
    char text[];
} lk_log_line;

bool lk_log_wanted(const locker_services *svc, locker_log_level level)
{
    const locker *l = lk_locker_of(svc);
    return l->log != NULL && level <= l->log_level && !lk_forked(l);
}

void lk_log(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    locker *l = lk_locker_of(svc);
    if (!lk_log_wanted(svc, level))
        return;
    char said[LINE_SIZE], text[LINE_SIZE];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(said, sizeof said, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof said)
        lk_trim_cut_character(said, sizeof said - 1);
    (void)lk_printable(text, sizeof text, said);
    lk_log_line *line = malloc(sizeof *line + strlen(text) + 1);
    if (line != NULL) {
        line->level = level;
        (void)strcpy(line->text, text);
    }
    lk_mutex_lock(&l->mutex);
    if (line != NULL && l->log_count < LINES_AT_MOST) {
        lk_list_append(&l->log_lines, &line->link);
        l->log_count++;
        line = NULL;
    } else {
        l->log_lost++;
    }
    lk_wake_keeper_locked(l);
    lk_mutex_unlock(&l->mutex);
    free(line);
}

bool lk_log_waits_locked(const locker *l)
{
    return l->log_count > 0 || l->log_lost > 0;
}

/* Lines are lost while all that may be are kept, so they came after those. What comes meanwhile has to wait until the keeper
 * has renewed what is due: a stream of lines must not cost a lease. */
void lk_log_tell_unlocking(locker *l)
{
    const uint64_t lost = l->log_lost;
    lk_list lines;
    if (!lk_log_waits_locked(l))
        return;
    lk_list_init(&lines);
    lk_list_splice(&lines, &l->log_lines);
    l->log_count = 0;
    l->log_lost = 0;
    lk_mutex_unlock(&l->mutex);
    LK_EACH_SAFE(lk_log_line, line, link, &lines) {
        l->log(line->level, line->text, l->log_user);
        free(line);
    }
    if (lost > 0) {
        char text[96];
        (void)snprintf(text, sizeof text,
                       "%llu log lines were lost: the log callback is too slow, or memory is short",
                       (unsigned long long)lost);
        l->log(LOCKER_LOG_WARN, text, l->log_user);
    }
    lk_mutex_lock(&l->mutex);
}
