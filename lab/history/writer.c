/* writer.c: appending lines to a history. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lk_history_writer {
    int fd;
    lk_event common;
};

lk_history_writer *lk_history_writer_open(const char *path, const lk_event *common)
{
    lk_history_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    if (common)
        writer->common = *common;
    writer->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (writer->fd >= 0)
        return writer;
    free(writer);
    return NULL;
}

static void complete(const lk_event *common, lk_event *event)
{
    if (event->process == 0)
        event->process = common->process ? common->process : getpid();
    if (event->thread == 0)
        event->thread = syscall(SYS_gettid);
    if (event->run == 0)
        event->run = common->run;
    if (!event->worker)
        event->worker = common->worker;
    if (!event->backend)
        event->backend = common->backend;
    if (!event->scenario)
        event->scenario = common->scenario;
    if (!event->key && event->op != LK_OP_FAULT && event->op != LK_OP_END && event->op != LK_OP_NOTE)
        event->key = common->key;
}

/* A line is one write(): a rest, after a signal or on a full disk, can't be appended, since another's line
 * may have come between. */
static bool append(int fd, const char *text, size_t length)
{
    ssize_t written;
    do {
        written = write(fd, text, length);
    } while (written < 0 && errno == EINTR);
    if (written >= 0 && (size_t)written < length)
        errno = ENOSPC;
    return written >= 0 && (size_t)written == length;
}

bool lk_history_write(lk_history_writer *writer, const lk_event *event)
{
    lk_event line = *event;
    if (line.t == 0)
        line.t = lk_event_now();
    complete(&writer->common, &line);
    json_t *object = lk_event_encode(&line);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) {
        errno = EILSEQ;
        return false;
    }
    const size_t length = strlen(text);
    text[length] = '\n'; /* in the place of the NUL */
    const bool done = append(writer->fd, text, length + 1);
    free(text);
    return done;
}

void lk_history_writer_close(lk_history_writer *writer)
{
    if (!writer)
        return;
    close(writer->fd);
    free(writer);
}
