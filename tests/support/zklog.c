/* zklog.c: what a ZooKeeper server remembers; see zklog.h. */
#include "zklog.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

static uint32_t read_four(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_four(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Over a text or a buffer: four bytes of length, -1 for none, and what it has. */
static const uint8_t *over(const uint8_t *at)
{
    const int32_t len = (int32_t)read_four(at);
    return at + 4 + (len > 0 ? len : 0);
}

/* Where a transaction that creates a child of `parent` keeps the number of the next one; NULL: it is another
 * one. A header (session, cxid, zxid, time, type), path, data, ACL, whether it is ephemeral, the number. */
static uint8_t *number_in(uint8_t *entry, const char *parent)
{
    enum { HEADER = 8 + 4 + 8 + 8, CREATE = 1, CREATE2 = 15, CREATE_CONTAINER = 19 };
    const uint32_t type = read_four(entry + HEADER);
    const uint8_t *at = entry + HEADER + 4;
    const size_t len = strlen(parent);
    if ((type != CREATE && type != CREATE2 && type != CREATE_CONTAINER) || read_four(at) <= len ||
        memcmp(at + 4, parent, len) != 0 || at[4 + len] != '/')
        return NULL;
    at = over(over(at));
    uint32_t acls = read_four(at);
    for (at += 4; acls > 0; acls--)
        at = over(over(at + 4));
    if (type != CREATE_CONTAINER)
        at++;
    return entry + (at - entry);
}

static uint32_t adler32(const uint8_t *bytes, size_t count)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < count; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* In the log of transactions: a header, and each entry with its checksum and length before it and a byte
 * behind it; then zeros. False: none creates a child there. */
static bool patch_log(uint8_t *log, size_t size, const char *parent, int32_t number)
{
    enum { HEADER = 16, BEFORE = 12, LEAST = 40 };
    uint8_t *last = NULL, *last_entry = NULL;
    for (size_t at = HEADER; at + BEFORE + LEAST < size && read_four(log + at + 8) > 0;
         at += BEFORE + read_four(log + at + 8) + 1) {
        uint8_t *found = number_in(log + at + BEFORE, parent);

        if (found != NULL) {
            last = found;
            last_entry = log + at;
        }
    }
    if (last == NULL)
        return false;
    write_four(last, (uint32_t)number);
    write_four(last_entry + 4, adler32(last_entry + BEFORE, read_four(last_entry + 8)));
    return true;
}

static bool patch_file(const char *path, const char *parent, int32_t number)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    bool patched = false;
    if (fd < 0 || fstat(fd, &stat) < 0)
        test_fails("can't open %s: %s", path, strerror(errno));
    if (stat.st_size > 0) {
        uint8_t *log = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (log == MAP_FAILED)
            test_fails("can't map %s: %s", path, strerror(errno));
        patched = patch_log(log, (size_t)stat.st_size, parent, number);
        munmap(log, (size_t)stat.st_size);
    }
    close(fd);
    return patched;
}

void lk_zklog_count_from(const lk_server *server, const char *parent, int32_t number)
{
    char pattern[LK_SCRATCH_PATH + 32];
    bool patched = false;
    glob_t logs;
    snprintf(pattern, sizeof pattern, "%s/version-2/log.*", server->directory);
    if (glob(pattern, 0, NULL, &logs) != 0)
        test_fails("there is no %s", pattern);
    for (size_t i = 0; i < logs.gl_pathc; i++)
        patched = patch_file(logs.gl_pathv[i], parent, number) || patched;
    globfree(&logs);
    if (!patched)
        test_fails("the server's log creates no child of %s", parent);
}
