/* zookeeper.c: what a record of ZooKeeper's is; see zookeeper.h. A record begins with its length. Then comes
 * the request's number, in a request and in its reply; in a request the kind and, mostly, a path. */
#include "proxy/zookeeper.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 4, KIND = 8, PATH = 12, ERROR = 16, LIST_PLAIN = 8 };
enum { EXPIRED = -112, THROTTLED = -127, NAMELESS = -124 }; /* what a server answers */

static int32_t number_at(const lk_message *record, size_t at)
{
    uint32_t wire = 0;
    if (at + sizeof wire <= record->length)
        memcpy(&wire, record->bytes + at, sizeof wire);
    return (int32_t)ntohl(wire);
}

static size_t length(const char *bytes, size_t count)
{
    const lk_message record = {bytes, count, 0};
    const size_t all = (size_t)(uint32_t)number_at(&record, 0) + 4;
    return count >= 4 && all <= count ? all : 0;
}

static bool is(const lk_message *request, const char *kind)
{
    const int32_t own = request->nth == 1 ? 0 : number_at(request, KIND);
    return strtol(kind, NULL, 10) == (own == LIST_PLAIN ? strtol(LK_ZKP_LIST, NULL, 10) : own);
}

/* Events have the number -1, which is LK_UNASKED. */
static int64_t number(const lk_message *record)
{
    return record->nth == 1 ? INT64_MAX : number_at(record, NUMBER);
}

static size_t write_error(int32_t code, const lk_message *reply, char *out, size_t size)
{
    const uint32_t length_now = htonl(ERROR), error = htonl((uint32_t)code);
    if (reply->length < ERROR + sizeof error || size < ERROR + sizeof error)
        return 0;
    memcpy(out, reply->bytes, ERROR);
    memcpy(out, &length_now, sizeof length_now);
    memcpy(out + ERROR, &error, sizeof error);
    return ERROR + sizeof error;
}

size_t lk_proxy_zookeeper_expired(const lk_message *reply, char *out, size_t size)
{
    return write_error(EXPIRED, reply, out, size);
}

size_t lk_proxy_zookeeper_throttled(const lk_message *reply, char *out, size_t size)
{
    return write_error(THROTTLED, reply, out, size);
}

size_t lk_proxy_zookeeper_nameless(const lk_message *reply, char *out, size_t size)
{
    return write_error(NAMELESS, reply, out, size);
}

void lk_proxy_zookeeper_withheld(lk_proxy *proxy, char *path, size_t size)
{
    char bytes[1024];
    const lk_message request = {bytes, lk_proxy_withheld(proxy, bytes, sizeof bytes), 0};
    size_t count = (size_t)(uint32_t)number_at(&request, PATH);
    if (PATH + 4 + count > request.length || count >= size)
        count = 0;
    memcpy(path, bytes + PATH + 4, count);
    path[count] = '\0';
}

static const char nonsense[] = "\0\0\0\x10this is no reply";

const lk_protocol lk_proxy_zookeeper = {length, is, number, nonsense, sizeof nonsense - 1};
