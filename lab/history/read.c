/* read.c: reading files of lines into a history. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

lk_history *lk_history_new(void)
{
    lk_history *history = calloc(1, sizeof *history);
    return history;
}

void lk_history_free(lk_history *history)
{
    if (!history)
        return;
    for (size_t i = 0; i < history->key_count; i++) {
        free(history->keys[i].attempts);
        free(history->keys[i].grants);
        free(history->keys[i].looks);
        free(history->keys[i].writes);
    }
    free(history->keys);
    free(history->allowed);
    free(history->processes);
    free(history->attempts);
    free(history->files);
    free(history->events);
    lk_strings_clear(&history->strings);
    free(history);
}

bool lk_history_fail(lk_history_error *error, lk_history_failure failure, const char *format, ...)
{
    error->failure = failure;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return false;
}

bool lk_history_no_memory(lk_history_error *error)
{
    return lk_history_fail(error, LK_HISTORY_NO_MEMORY,
                           "out of memory: this history is too long for this host");
}

const lk_event *lk_history_events(const lk_history *history, size_t *count)
{
    *count = history->event_count;
    return history->events;
}

const char *lk_history_file_name(const lk_history *history, size_t index)
{
    return index < history->file_count ? history->files[index].name : NULL;
}

uint32_t lk_history_cut_line(const lk_history *history, size_t index)
{
    return index < history->file_count ? history->files[index].cut_line : 0;
}

size_t lk_history_processes(const lk_history *history)
{
    return history->process_count;
}

size_t lk_history_keys(const lk_history *history)
{
    return history->key_count;
}

/* ------------------------------------------------------------------ a line ---- */

/* The event's strings are its JSON object's, which goes away. Those that tell locks apart are never NULL. */
static bool keep_strings(lk_history *history, lk_event *event)
{
    const char **const texts[] = {&event->worker, &event->backend, &event->scenario, &event->key,
                                  &event->id,     &event->owner,   &event->outcome,  &event->resource,
                                  &event->kind,   &event->what,    &event->mode};
    if (!event->backend)
        event->backend = "";
    if (!event->scenario)
        event->scenario = "";
    if (!event->resource)
        event->resource = "";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (*texts[i] && (*texts[i] = lk_strings_add(&history->strings, *texts[i])) == NULL)
            return false;
    return true;
}

/* The line in `text`, which is the event's. */
static bool take(lk_history *history, lk_event *event, const char *text, size_t length, bool cut,
                 lk_history_error *error)
{
    lk_history_file *file = &history->files[event->file];
    json_error_t wrong;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &wrong);
    if (!object && json_error_code(&wrong) == json_error_out_of_memory)
        return lk_history_no_memory(error);
    if (!object && cut) {
        file->cut_line = event->line;
        return true;
    }
    if (!object)
        return lk_history_fail(error, LK_HISTORY_BAD_DATA, "%s:%u: this is not a JSON object: %s", file->name,
                               event->line, wrong.text);
    char why[256];
    if (!lk_event_decode(object, event, why, sizeof why)) {
        json_decref(object);
        return lk_history_fail(error, LK_HISTORY_BAD_DATA, "%s:%u: %s", file->name, event->line, why);
    }
    const bool kept = keep_strings(history, event) && lk_grow(&history->events, sizeof *history->events,
                                                              history->event_count, &history->event_room);
    json_decref(object);
    if (!kept)
        return lk_history_no_memory(error);
    history->events[history->event_count++] = *event;
    return true;
}

/* ------------------------------------------------------------------ a file ---- */

static bool read_lines(lk_history *history, FILE *stream, lk_history_error *error)
{
    const uint32_t file = (uint32_t)history->file_count - 1;
    char *text = NULL;
    size_t room = 0;
    bool good = true;
    errno = 0;
    ssize_t length;
    for (uint32_t line = 1; good && (length = getline(&text, &room, stream)) > 0; line++) {
        lk_event event = LK_EVENT_INIT;
        event.file = file;
        event.line = line;
        good = take(history, &event, text, (size_t)length, text[length - 1] != '\n', error);
        errno = 0;
    }
    free(text);
    if (good && !feof(stream)) {
        if (errno == ENOMEM)
            return lk_history_no_memory(error);
        return lk_history_fail(error, LK_HISTORY_NO_INPUT, "cannot read %s: %s", history->files[file].name,
                               strerror(errno));
    }
    return good;
}

bool lk_history_read(lk_history *history, const char *path, lk_history_error *error)
{
    const bool standard = strcmp(path, "-") == 0;
    const char *name = lk_strings_add(&history->strings, standard ? "standard input" : path);
    if (!name || !lk_grow(&history->files, sizeof *history->files, history->file_count, &history->file_room))
        return lk_history_no_memory(error);
    FILE *stream = standard ? stdin : fopen(path, "re");
    if (!stream)
        return lk_history_fail(error, LK_HISTORY_NO_INPUT, "cannot read %s: %s", path, strerror(errno));
    history->files[history->file_count++] = (lk_history_file){.name = name};
    const bool good = read_lines(history, stream, error);
    if (!standard)
        fclose(stream);
    return good;
}
