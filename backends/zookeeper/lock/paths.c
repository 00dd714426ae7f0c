/* paths.c: names of nodes. A contender of a key is <chroot>/<namespace>/<key>/_c_<uuid>-lock-<10 digits>, which is
 * Curator's and go-zookeeper's naming; those clients and ours queue on one path. Who shares the key has __READ__ in the place
 * of lock-, and with names=readwrite who wants it alone has __WRIT__: the names of Curator's lock for readers and writers.
 * Key and namespace are encoded, so that different keys have different nodes, and no name that ZooKeeper refuses arises. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lk_escape.h"
#include "paths.h"

/* The end of a component of a path that begins there; NULL: no node may have that name. */
static const char *component_end(const char *at, const char *end)
{
    const char *const begin = at;
    while (at < end && *at != '/') {
        const unsigned char c = (unsigned char)*at++;
        if (c < 0x20 || c == 0x7F)
            return NULL;
    }
    const size_t len = (size_t)(at - begin);
    return len == 0 || strncmp(begin, "..", len) == 0 ? NULL : at; /* "." or "..", or nothing */
}

/* The chroot stays as it is, but for slashes at its end: an administrator made it. The namespace is encoded. */
locker_status lk_zk_root_init(lk_zk *z, const locker_driver_config *config, locker_error *err)
{
    const char *path = config->path, *end = path + strlen(path);
    const size_t space = strlen(config->name_space);
    while (end > path && end[-1] == '/')
        end--;
    const size_t len = (size_t)(end - path);
    if (len + 3 * space + 2 > LK_ZK_ROOT_MAX)
        return lk_misconfigured(err, "chroot and namespace, encoded, are too long together; shorten them");
    for (const char *at = path; at != end;) {
        at = *at == '/' ? component_end(at + 1, end) : NULL;
        if (at == NULL)
            return lk_misconfigured(
                err, "the URI's path is not a valid path of a ZooKeeper node; write zookeeper://host/a/b");
    }
    char *out = mempcpy(z->root, path, len);
    if (space > 0) {
        *out++ = '/';
        out = lk_escape(out, config->name_space, space);
    }
    *out = '\0';
    return LOCKER_OK;
}

bool lk_zk_parent_path(const lk_zk *z, const char *key, size_t key_len, char path[LK_ZK_PARENT_MAX])
{
    static const char reserved[] = "zookeeper"; /* the server's own node, at the very root */
    const size_t root = strlen(z->root);
    if (root + 3 * key_len + 2 + sizeof(LK_ZK_LEASES) > LK_ZK_PARENT_MAX)
        return false;
    char *out = mempcpy(path, z->root, root);
    *out++ = '/';
    if (root == 0 && key_len == sizeof(reserved) - 1 && memcmp(key, reserved, key_len) == 0)
        (void)strcpy(out, "%7Aookeeper");
    else
        *lk_escape(out, key, key_len) = '\0';
    return true;
}

char *lk_zk_key_path(const char *below, char path[LK_ZK_PATH_MAX])
{
    char *const end = mempcpy(path, below, (size_t)(strrchr(below, '/') - below));
    *end = '\0';
    return end;
}

char *lk_zk_permits_path(const char *queue, char path[LK_ZK_PATH_MAX])
{
    return stpcpy(lk_zk_key_path(queue, path), "/" LK_ZK_LEASES);
}

bool lk_zk_is_of_permits(const char *name)
{
    return strcmp(name, LK_ZK_LOCKS) == 0 || strcmp(name, LK_ZK_LEASES) == 0;
}

locker_status lk_zk_check_key(void *self, const char *key, size_t key_len, locker_error *err)
{
    char path[LK_ZK_PARENT_MAX];
    if (lk_zk_parent_path(self, key, key_len, path))
        return LOCKER_OK;
    return lk_invalid(err, "the encoded key is too long for a ZooKeeper path; use a shorter key");
}

bool lk_zk_join(char path[LK_ZK_PATH_MAX], const char *parent, const char *name)
{
    if (strlen(parent) + 1 + strlen(name) >= LK_ZK_PATH_MAX)
        return false;
    char *out = stpcpy(path, parent);
    *out++ = '/';
    (void)strcpy(out, name);
    return true;
}

/* Eight digits in one word, of which the first stands in the lowest byte: pairs are added up, then fours. */
static bool read_eight(const char *at, uint64_t *value)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    word = le64toh(word) ^ UINT64_C(0x3030303030303030);
    if (((word | (word + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080)) != 0)
        return false;
    word = word * 10 + (word >> 8);
    *value = ((word & UINT64_C(0xFF000000FF)) * UINT64_C(0xF424000000064) +
              (word >> 16 & UINT64_C(0xFF000000FF)) * UINT64_C(0x271000000001)) >>
             32;
    return true;
}

/* Ten digits before `end`: the usual number, which nearly every name of a list has. */
static bool read_ten(const char *end, int32_t *sequence)
{
    const unsigned tens = (unsigned)(unsigned char)end[-10] - '0',
                   ones = (unsigned)(unsigned char)end[-9] - '0';
    uint64_t value;
    if (tens > 9 || ones > 9 || !read_eight(end - 8, &value))
        return false;
    value = (value & UINT32_MAX) + (10 * tens + ones) * UINT64_C(100000000);
    *sequence = (int32_t)value;
    return value <= INT32_MAX;
}

/* Read %010d at the end of the name; returns where it begins, NULL if there is none. */
static const char *read_sequence(const char *name, const char *end, int32_t *sequence)
{
    const char *at = end;
    int64_t value = 0, worth = 1;
    for (; at > name && end - at < 10 && at[-1] >= '0' && at[-1] <= '9'; worth *= 10)
        value += worth * (*--at - '0');
    const bool negative = at > name && at[-1] == '-' && end - at >= 9; /* "-lock--000000001": wrapped */
    const size_t digits = (size_t)(end - at);
    if (negative && at > name + 1 && (at[-2] == '-' || at[-2] == '_')) {
        at--;
        value = -value;
    } else if (digits != 10) {
        return NULL;
    }
    if (value > INT32_MAX || value < INT32_MIN)
        return NULL;
    *sequence = (int32_t)value;
    return at;
}

/* Whether `mark` stands right before `at`. */
#define FOLLOWS(name, at, mark)                                                                              \
    ((size_t)((at) - (name)) >= sizeof(mark) - 1 &&                                                          \
     memcmp((at) - (sizeof(mark) - 1), mark, sizeof(mark) - 1) == 0)

lk_zk_kind lk_zk_contender(const char *name, int32_t *sequence)
{
    const char *end = name + strlen(name);
    if (end - name >= 15 && memcmp(end - 15, "lock-", 5) == 0 && read_ten(end, sequence))
        return LK_ZK_EXCLUDES;
    const char *at = read_sequence(name, end, sequence);
    if (at == NULL)
        return LK_ZK_NO_CONTENDER;
    if (FOLLOWS(name, at, "__READ__") || FOLLOWS(name, at, "__rlock__")) /* Curator's and kazoo's readers */
        return LK_ZK_SHARES;
    return FOLLOWS(name, at, "lock-") || FOLLOWS(name, at, "__lock__") || FOLLOWS(name, at, "__WRIT__")
               ? LK_ZK_EXCLUDES
               : LK_ZK_NO_CONTENDER;
}

bool lk_zk_is_permit(const char *name)
{
    int32_t permits, slot;
    const char *const at = read_sequence(name, name + strlen(name), &permits);
    return (at != NULL && FOLLOWS(name, at, "lease-")) || lk_zk_read_permit(name, &permits, &slot);
}

bool lk_zk_before(int32_t a, const char *a_name, int32_t b, const char *b_name)
{
    return a != b ? a < b : strcmp(a_name, b_name) < 0;
}

bool lk_zk_used_up(int32_t sequence)
{
    return sequence < 0 || sequence == INT32_MAX;
}

static const char mutex_tail[] = "lock-", writer_tail[] = "__WRIT__", reader_tail[] = "__READ__";

bool lk_zk_names_set(lk_zk *z, const char *setting)
{
    z->exclusive = strcmp(setting, "mutex") == 0       ? mutex_tail
                   : strcmp(setting, "readwrite") == 0 ? writer_tail
                                                       : NULL;
    return z->exclusive != NULL;
}

/* Curator reads nothing before `lock-`, and nothing at all of who has a permit. */
void lk_zk_tail_of(const lk_zk *z, const locker_claim *claim, char tail[LK_ZK_TAIL_MAX])
{
    if (claim->permits > 0)
        (void)snprintf(tail, LK_ZK_TAIL_MAX, "of%d-lock-", claim->permits);
    else
        (void)strcpy(tail, claim->mode == LOCKER_SHARED ? reader_tail : z->exclusive);
}

/* _c_<8 digits>-<4>-<4>-<4>-<12>-: the first three groups are the locker's, the last two are the id. */
enum { FIRST = 3 + 8 + 1 + 4 + 1 + 4 + 1, SECOND = FIRST + 4 + 1, LAST = SECOND + 12 };

static void put_hex(char *out, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
}

void lk_zk_stem_begin(lk_zk *z, uint64_t random)
{
    memcpy(z->stem, "_c_xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx-", sizeof(z->stem));
    put_hex(z->stem + 3, random >> 32, 8);
    put_hex(z->stem + 12, random >> 16 & 0xFFFF, 4);
    put_hex(z->stem + 17, random & 0xFFFF, 4);
}

char *lk_zk_stem(const lk_zk *z, uint64_t id, const char *tail, char stem[LK_ZK_NAME_MAX])
{
    memcpy(stem, z->stem, LK_ZK_STEM_LEN);
    put_hex(stem + FIRST, id >> 48, 4);
    put_hex(stem + SECOND, id & 0xFFFFFFFFFFFF, 12);
    return stpcpy(stem + LK_ZK_STEM_LEN, tail);
}

/* Each digit's value, plus one. A list is full of them. */
static const uint8_t hex_value[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};

/* Read that many groups of four. */
static bool read_hex(const char *text, int groups, uint64_t *value)
{
    for (; groups > 0; groups--, text += 4) {
        unsigned a, b, c, d;
        if ((a = hex_value[(unsigned char)text[0]]) == 0 || (b = hex_value[(unsigned char)text[1]]) == 0 ||
            (c = hex_value[(unsigned char)text[2]]) == 0 || (d = hex_value[(unsigned char)text[3]]) == 0)
            return false;
        *value = *value << 16 | ((a << 12) + (b << 8) + (c << 4) + d - 0x1111);
    }
    return true;
}

bool lk_zk_own_id(const lk_zk *z, const char *name, uint64_t *id)
{
    name = *name == '/' ? strrchr(name, '/') + 1 : name; /* no name has a slash in it */
    *id = 0;
    /* Of another's name the first random digit tells nearly always, and without a call. */
    return name[0] == '_' && name[1] == 'c' && name[2] == '_' && name[3] == z->stem[3] &&
           strncmp(name + 4, z->stem + 4, FIRST - 4) == 0 && read_hex(name + FIRST, 1, id) &&
           name[SECOND - 1] == '-' && read_hex(name + SECOND, 3, id) && name[LAST] == '-';
}

bool lk_zk_is_own(const lk_zk *z, const char *name, uint64_t *id, int32_t *sequence)
{
    return lk_zk_own_id(z, name, id) && lk_zk_contender(name, sequence);
}

/* As the server's %010d: a negative number has its sign before nine digits. */
void lk_zk_name(const lk_zk *z, uint64_t id, const char *tail, int32_t sequence, char name[LK_ZK_NAME_MAX])
{
    uint32_t left = sequence < 0 ? 0 - (uint32_t)sequence : (uint32_t)sequence;
    const int digits = sequence < 0 && left < 1000000000u ? 9 : 10;
    char *out = lk_zk_stem(z, id, tail, name);
    if (sequence < 0)
        *out++ = '-';
    for (int i = digits - 1; i >= 0; i--, left /= 10)
        out[i] = (char)('0' + left % 10);
    out[digits] = '\0';
}

bool lk_zk_tail(const char *name, char tail[LK_ZK_TAIL_MAX])
{
    int32_t sequence;
    const char *const begin = name + LK_ZK_STEM_LEN, *const end =
                                                         read_sequence(name, name + strlen(name), &sequence);
    if (end == NULL || end < begin || end - begin >= LK_ZK_TAIL_MAX)
        return false;
    *(char *)mempcpy(tail, begin, (size_t)(end - begin)) = '\0';
    return true;
}

void lk_zk_permit_name(const lk_zk *z, uint64_t id, int32_t permits, int32_t slot, char name[LK_ZK_NAME_MAX])
{
    (void)snprintf(lk_zk_stem(z, id, "", name), LK_ZK_TAIL_MAX, "of%d-lease-%d", permits, slot);
}

/* A number from 0 on; NULL: there is none. */
static const char *read_count(const char *at, int32_t *count)
{
    char *end;
    const long value = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
    *count = (int32_t)value;
    return value >= 0 && value <= INT32_MAX ? end : NULL;
}

bool lk_zk_read_permit(const char *name, int32_t *permits, int32_t *slot)
{
    static const char queued[] = "-lock-", taken[] = "-lease-";
    if (strnlen(name, LK_ZK_STEM_LEN + 2) < LK_ZK_STEM_LEN + 2 ||
        memcmp(name + LK_ZK_STEM_LEN - 1, "-of", 3) != 0)
        return false;
    const char *at = read_count(name + LK_ZK_STEM_LEN + 2, permits);
    *slot = -1;
    if (at == NULL || *permits == 0)
        return false;
    if (strncmp(at, queued, sizeof(queued) - 1) == 0)
        return true;
    at = strncmp(at, taken, sizeof(taken) - 1) == 0 ? read_count(at + sizeof(taken) - 1, slot) : NULL;
    return at != NULL && *at == '\0' && *slot < *permits;
}
