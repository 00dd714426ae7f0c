/* etcd.c: what a frame of HTTP/2 is, and what etcd is asked in it; see etcd.h. Which method is called stands in compressed headers,
 * so the message itself has to tell: its fields do, as the driver fills them. */
#include "proxy/etcd.h"

#include <string.h>

enum {
    PREFACE = 24,
    FRAME = 9,
    GRPC = 5,
    DATA = 0,
    HEADERS = 1,
    RESET = 3,
    ENDS = 1 /* a flag */,
    WHOLE = 4 | ENDS,
    LEASE_LONGEST = 1000000
};

static uint8_t byte_at(const char *bytes, size_t at)
{
    return (uint8_t)bytes[at];
}

static size_t frame_length(const char *bytes)
{
    return FRAME + ((size_t)byte_at(bytes, 0) << 16 | (size_t)byte_at(bytes, 1) << 8 | byte_at(bytes, 2));
}

/* What a client says first is a message of its own. */
static size_t length(const char *bytes, size_t count)
{
    static const char preface[] = "PRI * HTTP/2.0";
    if (count < FRAME)
        return 0;
    const size_t all = memcmp(bytes, preface, FRAME) == 0 ? PREFACE : frame_length(bytes);
    return all <= count ? all : 0;
}

static int64_t number(const lk_message *frame)
{
    const uint8_t type = byte_at(frame->bytes, 3);
    int64_t stream = 0;
    for (size_t i = 5; i < FRAME; i++)
        stream = stream << 8 | byte_at(frame->bytes, i);
    return type == DATA || type == HEADERS || type == RESET ? stream : LK_UNASKED;
}

/* ---------------------------------------------------------------- protobuf ---- */
typedef struct {
    const char *at;
    size_t left;
} fields;

typedef struct {
    uint64_t tag; /* number and type */
    uint64_t value;
    fields inside; /* of a message, a text */
} field;

static bool take_number(fields *f, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; f->left > 0 && shift < 64; shift += 7) {
        const uint8_t one = (uint8_t)*f->at++;
        f->left--;
        *value |= (uint64_t)(one & 0x7F) << shift;
        if (one < 0x80)
            return true;
    }
    return false;
}

/* Numbers and what has a length: etcd's requests have nothing else. */
static bool take(fields *f, field *one)
{
    if (!take_number(f, &one->tag) || !take_number(f, &one->value))
        return false;
    one->inside = (fields){f->at, 0};
    if ((one->tag & 7) != 2)
        return true;
    if (one->value > f->left)
        return false;
    one->inside.left = (size_t)one->value;
    f->at += one->value;
    f->left -= one->value;
    return true;
}

enum {
    FIRST_NUMBER = 1 << 3,
    FIRST = 1 << 3 | 2,
    SECOND = 2 << 3 | 2,
    THIRD = 3 << 3 | 2,
    FOURTH = 4 << 3 | 2
};

static bool is_permit(fields put)
{
    field key;
    return take(&put, &key) && key.tag == FIRST &&
           memmem(key.inside.at, key.inside.left, "-slot-", 6) != NULL;
}

/* What a transaction does if what it asks for is so. */
static const char *kind_of_txn(fields txn)
{
    bool compares = false, deletes = false, reads = false;
    const char *puts = NULL;
    for (field one; take(&txn, &one);) {
        field what;
        compares = compares || one.tag == FIRST;
        if (one.tag != SECOND || !take(&one.inside, &what))
            continue;
        if (what.tag == FOURTH)
            return LK_EP_MOVE;
        if (what.tag == SECOND)
            puts = is_permit(what.inside) ? LK_EP_TAKE : LK_EP_ENTER;
        deletes = deletes || what.tag == THIRD;
        reads = reads || what.tag == FIRST;
    }
    return puts != NULL ? puts : deletes ? LK_EP_DELETE : compares && reads ? LK_EP_LOOK : "";
}

/* What is done if what it asks for isn't so is no read. */
static bool is_ordered(fields txn)
{
    for (field one, what; take(&txn, &one);)
        if (one.tag == THIRD && take(&one.inside, &what) && what.tag == FOURTH)
            return true;
    return false;
}

/* Nothing but watches does; what is large comes in several frames. */
static bool goes_on(const lk_message *request)
{
    size_t whole = FRAME + GRPC;
    for (size_t i = 1; i < GRPC; i++)
        whole += (size_t)byte_at(request->bytes, FRAME + i) << (8 * (GRPC - 1 - i));
    return (byte_at(request->bytes, 4) & ENDS) == 0 && whole <= request->length;
}

static bool is(const lk_message *request, const char *kind)
{
    fields message = {request->bytes + FRAME + GRPC, 0};
    if (request->length < FRAME + GRPC || number(request) <= 0 || byte_at(request->bytes, 3) != DATA)
        return false;
    message.left = request->length - FRAME - GRPC;
    fields again = message;
    field first;
    if (!take(&again, &first))
        return strcmp(kind, LK_EP_MEMBER) == 0;
    if (goes_on(request))
        return strcmp(kind, first.tag == FIRST ? LK_EP_WATCH : LK_EP_IGNORE) == 0;
    if (first.tag == FIRST_NUMBER)
        return strcmp(kind, first.value < LEASE_LONGEST ? LK_EP_GRANT : LK_EP_REVOKE) == 0;
    if (strcmp(kind, LK_EP_ORDER) == 0)
        return strcmp(kind_of_txn(message), LK_EP_LOOK) == 0 && is_ordered(message);
    return strcmp(kind, kind_of_txn(message)) == 0;
}

static const char nonsense[] = "\0\0\x04\x2Athis is no frame";

const lk_protocol lk_proxy_etcd = {length, is, number, nonsense, sizeof nonsense - 1};

/* A header that ends the stream, in words by which the next ones are not compressed: ":status: 200", and of gRPC's two. */
static size_t refuse(const lk_message *request, const char *status, const char *text, char *out)
{
    const char *const words[] = {"grpc-status", status, "grpc-message", text};
    size_t at = FRAME;
    memcpy(out, request->bytes, FRAME); /* the stream */
    out[at++] = '\x88';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t len = strlen(words[i]);

        if (i % 2 == 0)
            out[at++] = 0;
        out[at++] = (char)len;
        memcpy(out + at, words[i], len);
        at += len;
    }
    out[0] = out[1] = 0;
    out[2] = (char)(at - FRAME);
    out[3] = HEADERS;
    out[4] = WHOLE;
    return at;
}

size_t lk_proxy_etcd_unavailable(const lk_message *request, char *out, size_t size)
{
    (void)size; /* there is more room than that */
    return refuse(request, "14", "etcdserver: request timed out", out);
}

size_t lk_proxy_etcd_nameless(const lk_message *request, char *out, size_t size)
{
    (void)size;
    return refuse(request, "3", "etcdserver: user name is empty", out);
}
