/* record.c: values; see record.h. "<id> <ms since 1970, or -> <owner>" */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

int64_t lk_etcd_unix_ms(const lk_etcd *e, int64_t at)
{
    return (lk_time_of(CLOCK_REALTIME) - (lk_etcd_now_of(e) - at)) / LK_MS;
}

void lk_etcd_record_write(const char *id, int64_t unix_ms, const char *owner, char text[LK_ETCD_RECORD_MAX])
{
    (void)snprintf(text, LK_ETCD_RECORD_MAX, "%s %" PRId64 " %.*s", id, unix_ms, LOCKER_OWNER_MAX, owner);
}

static bool is_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            return false;
    return true;
}

void lk_etcd_record_read(const ProtobufCBinaryData *value, lk_etcd_record *record)
{
    char text[LK_ETCD_RECORD_MAX] = "";
    const size_t len = value->len < sizeof text ? value->len : sizeof text - 1;
    const char *owner = text;
    *record = (lk_etcd_record){.unix_ms = -1};
    if (len == 0 || !is_text((const char *)value->data, len))
        return;
    memcpy(text, value->data, len);
    if (strspn(text, "0123456789abcdef") == LK_ETCD_ID_LEN && text[LK_ETCD_ID_LEN] == ' ') {
        char *end;
        memcpy(record->id, text, LK_ETCD_ID_LEN);
        record->unix_ms = strtoll(text + LK_ETCD_ID_LEN + 1, &end, 10);
        owner = *end == ' ' ? end + 1 : end;
    }
    (void)snprintf(record->owner, sizeof record->owner, "%.*s", LOCKER_OWNER_MAX, owner);
}
