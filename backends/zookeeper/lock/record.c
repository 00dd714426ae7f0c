/*
 * record.c: what we keep in the data of a key's node: since when the lock is held (grant_time.c), and which grant was
 * broken last (inspect.c, release.c). If somebody keeps something else there, it is left alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

/* The number behind these words, and what comes behind it; NULL: they aren't there. */
static const char *number(const char *text, const char *words, uint64_t *out)
{
    char *end;
    if (text == NULL || strncmp(text, words, strlen(words)) != 0)
        return NULL;
    *out = strtoull(text + strlen(words), &end, 10);
    return end;
}

/* What would not be written so again is somebody else's. */
bool lk_zk_record_read(const char *data, int len, lk_zk_record *record)
{
    char text[LK_ZK_RECORD_MAX] = "", again[LK_ZK_RECORD_MAX];
    uint64_t since = 0;
    *record = (lk_zk_record){0};
    if (len <= 0)
        return true;
    if (len >= LK_ZK_RECORD_MAX)
        return false;
    memcpy(text, data, (size_t)len);
    const char *rest = number(text, "locker: grant ", &record->granted);
    rest = number(rest, " since ", &since);
    if (number(rest, " broken ", &record->broken) == NULL)
        return false;
    record->unix_ms = (int64_t)since;
    lk_zk_record_write(record, again);
    return strlen(again) == (size_t)len && strcmp(text, again) == 0;
}

void lk_zk_record_write(const lk_zk_record *record, char text[LK_ZK_RECORD_MAX])
{
    (void)snprintf(text, LK_ZK_RECORD_MAX, "locker: grant %" PRIu64 " since %" PRId64 " broken %" PRIu64,
                   record->granted, record->unix_ms, record->broken);
}
