/* writer.h: append lines to a history (docs/history.md). Each line is one write() with O_APPEND, so processes
 * may share a file. One that may be killed needs a file of its own, because a kill can cut a write() short.
 * Nothing is buffered. */
#pragma once

#include "event.h"

/** One open file. Opaque; may be used by any number of threads at a time. */
typedef struct lk_history_writer lk_history_writer;

/** Open or make the file. `common` (NULL: nothing) is what every line has in common: its process (0: the
 * caller's pid), worker, run, backend, scenario and key go into lines that leave them out; its strings must
 * outlive the writer. NULL: errno says why. */
lk_history_writer *lk_history_writer_open(const char *path, const lk_event *common);

/** Append a line. t 0: now. thread 0: the caller's. One write(), so it blocks as long as that. False: errno
 * says why (EILSEQ: a string is not UTF-8, or memory ran out); nothing, or not all, of the line is
 * written. */
bool lk_history_write(lk_history_writer *writer, const lk_event *event);

/** Close it. NULL is allowed. */
void lk_history_writer_close(lk_history_writer *writer);
