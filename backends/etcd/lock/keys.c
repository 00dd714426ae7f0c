/* keys.c: names and values of keys. A value is "<id> <ms since 1970, or -> <owner>". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "lk_error.h"
#include "lk_escape.h"

/* Set the root. The path is used as it is, without the slashes around it, because other clients may use
 * it. The namespace is encoded. */
locker_status lk_etcd_root_init(lk_etcd *e, const locker_driver_config *config, locker_error *err)
{
    const char *path = config->path + strspn(config->path, "/");
    size_t len = strlen(path);
    const size_t space = strlen(config->name_space);
    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len + 3 * space + 3 > LK_ETCD_ROOT_MAX)
        return lk_misconfigured(err,
                                "path and namespace are too long: at most %d bytes together, "
                                "where a byte of the namespace counts as three; shorten them",
                                LK_ETCD_ROOT_MAX - 3);
    char *out = mempcpy(e->root, path, len);
    if (len > 0)
        *out++ = '/';
    if (space > 0) {
        out = lk_escape(out, config->name_space, space);
        *out++ = '/';
    }
    *out = '\0';
    return LOCKER_OK;
}

bool lk_etcd_base(const lk_etcd *e, const char *key, size_t key_len, lk_etcd_key *base)
{
    const size_t root = strlen(e->root);
    if (root + 3 * key_len + LK_ETCD_NAME_MAX > LK_ETCD_KEY_MAX)
        return false;
    char *const end = lk_escape((char *)mempcpy(base->text, e->root, root), key, key_len);
    *end = '\0';
    base->len = (size_t)(end - base->text);
    return true;
}

locker_status lk_etcd_check_key(void *self, const char *key, size_t key_len, locker_error *err)
{
    lk_etcd_key base;
    if (lk_etcd_base(self, key, key_len, &base))
        return LOCKER_OK;
    return lk_invalid(err, "the encoded key is too long; use a shorter key");
}

static void join(const char *base, const char *name, lk_etcd_key *key)
{
    char *const end = stpcpy(stpcpy(key->text, base), name);
    key->len = (size_t)(end - key->text);
}

static void join_permits(const char *base, int32_t permits, const char *name, lk_etcd_key *key)
{
    char text[LK_ETCD_NAME_MAX];
    (void)snprintf(text, sizeof text, "%%permits/%d%s", permits, name);
    join(base, text, key);
}

void lk_etcd_bounds(const char *base, int32_t permits, lk_etcd_range_of what, lk_etcd_key *begin,
                    lk_etcd_key *end)
{
    static const struct {
        const char *begin, *end;
        bool of_permits; /* the number of permits stands before `begin`, if the range has one */
    } of[LK_ETCD_RANGES] = {
        [LK_ETCD_QUEUE] = {"/", "0", false}, /* '0' follows '/' in ASCII, and '.' follows '-' */
        [LK_ETCD_UNSHARED1] = {"/", "/s-", false},
        [LK_ETCD_UNSHARED2] = {"/s.", "0", false},
        [LK_ETCD_PERMITS] = {"%permits/", "%permits0", false},
        [LK_ETCD_WANTS] = {"-want-", "-want.", true},
        [LK_ETCD_SLOTS] = {"-slot-", "-slot.", true},
        [LK_ETCD_OTHERS1] = {NULL, "-", true},
        [LK_ETCD_OTHERS2] = {".", NULL, true},
    };
    if (of[what].of_permits && of[what].begin != NULL)
        join_permits(base, permits, of[what].begin, begin);
    else
        join(base, of[what].of_permits ? "%permits/" : of[what].begin, begin);
    if (of[what].of_permits && of[what].end != NULL)
        join_permits(base, permits, of[what].end, end);
    else
        join(base, of[what].of_permits ? "%permits0" : of[what].end, end);
}

void lk_etcd_place_key(const char *base, locker_mode mode, int32_t permits, const char *id, lk_etcd_key *key)
{
    char want[LK_ETCD_NAME_MAX];
    if (permits > 0)
        (void)snprintf(want, sizeof want, "%%permits/%d-want-", permits);
    join(base, permits > 0 ? want : mode == LOCKER_SHARED ? "/s-" : "/", key);
    key->len = (size_t)(stpcpy(key->text + key->len, id) - key->text);
}

void lk_etcd_slot_key(const char *base, int32_t permits, int32_t slot, lk_etcd_key *key)
{
    char name[LK_ETCD_NAME_MAX];
    (void)snprintf(name, sizeof name, "%%permits/%d-slot-%d", permits, slot);
    join(base, name, key);
}

lk_etcd_told lk_etcd_key_told(const ProtobufCBinaryData *key, size_t base_len)
{
    static const char prefix[] = "%permits/", slot_of[] = "-slot-";
    lk_etcd_told told = {.mode = LOCKER_EXCLUSIVE, .permits = 0, .slot = -1};
    char name[LK_ETCD_NAME_MAX], *at;
    const size_t len = key->len > base_len && key->len - base_len < sizeof name ? key->len - base_len : 0;
    memcpy(name, key->data + base_len, len);
    name[len] = '\0';
    if (strncmp(name, "/s-", 3) == 0)
        told.mode = LOCKER_SHARED;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return told;
    const long permits = strtol(name + sizeof prefix - 1, &at, 10);
    told.permits = permits > 0 && permits <= LK_ETCD_PERMITS_MAX ? (int32_t)permits : 1;
    told.has_permit = strncmp(at, slot_of, sizeof slot_of - 1) == 0;
    if (told.has_permit) {
        const long slot = strtol(at + sizeof slot_of - 1, NULL, 10);
        told.slot = slot >= 0 && slot < told.permits ? (int32_t)slot : -1;
    }
    return told;
}

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
