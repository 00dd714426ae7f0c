/* way.c: bytes come in, and leave as whole messages; see way.h. */
#include "proxy/way.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lk_time.h"

enum { ROOM = 16384 };

int64_t lk_way_now(void)
{
    return lk_time_of(CLOCK_MONOTONIC);
}

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void append(lk_way *w, int64_t due, const char *bytes, size_t length)
{
    lk_piece *piece = must(malloc(sizeof *piece + length));
    *piece = (lk_piece){.due = due, .length = length};
    if (length > 0)
        memcpy(piece->bytes, bytes, length);
    *(w->first == NULL ? &w->first : &w->last->next) = piece;
    w->last = piece;
}

void lk_way_take(lk_way *w, size_t (*length)(const char *bytes, size_t count), int64_t due)
{
    if (w->rest_size - w->rest_length < ROOM)
        w->rest = must(realloc(w->rest, w->rest_size = 2 * w->rest_size + ROOM));

    const ssize_t got = recv(w->from, w->rest + w->rest_length, w->rest_size - w->rest_length, MSG_DONTWAIT);
    size_t used = 0;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        w->ended = true;
        append(w, due, NULL, 0);
        return;
    }
    w->rest_length += (size_t)got;
    size_t one;
    for (; used < w->rest_length && (one = length(w->rest + used, w->rest_length - used)) > 0; used += one)
        append(w, due, w->rest + used, one);
    w->rest_length -= used;
    memmove(w->rest, w->rest + used, w->rest_length);
}

void lk_way_drop(lk_way *w)
{
    lk_piece *piece = w->first;
    w->first = piece->next;
    free(piece);
}

void lk_way_clear(lk_way *w)
{
    while (w->first != NULL)
        lk_way_drop(w);
    free(w->rest);
    *w = (lk_way){.from = -1, .to = -1};
}

bool lk_way_send(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        const ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR)
            return false;
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        }
    }
    return true;
}
