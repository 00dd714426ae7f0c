/* zkclient.c: ZooKeeper's wire protocol (jute: numbers big-endian, strings and lists with their length before
 * them), as far as tests need it; see zkclient.h. */
#include "zkclient.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "expect.h"

enum { SESSION_MS = 60000, PROBE_MS = 1000, PASSWORD = 16, FRAME_MAX = 1 << 20 };
enum {
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_GET = 4,
    OP_SET = 5,
    OP_LIST = 8,
    OP_PING = 11,
    OP_CREATE_CONTAINER = 19
};
enum { OP_AUTH = 100, OP_CLOSE = -11, XID_AUTH = -4, XID_PING = -2, PERMISSION_ALL = 31 };

struct lk_zkc {
    int fd; /* -1: not connected */
    int session_ms;
    int32_t xid; /* of the last request */
    unsigned char *frame;
    size_t len; /* of the frame, after its length */
    size_t at;  /* what was read of it */
};

/* ------------------------------------------------------------------ jute ---- */

static void put_int(lk_zkc *client, int32_t value)
{
    uint32_t wire = htonl((uint32_t)value);
    memcpy(client->frame + client->len, &wire, sizeof wire);
    client->len += sizeof wire;
}

static void put_long(lk_zkc *client, int64_t value)
{
    put_int(client, (int32_t)(uint32_t)((uint64_t)value >> 32));
    put_int(client, (int32_t)(uint32_t)value);
}

static void put_bytes(lk_zkc *client, const void *bytes, size_t len)
{
    put_int(client, (int32_t)len);
    memcpy(client->frame + client->len, bytes, len);
    client->len += len;
}

static void put_text(lk_zkc *client, const char *text)
{
    put_bytes(client, text, strlen(text));
}

static void put_byte(lk_zkc *client, unsigned char byte)
{
    client->frame[client->len++] = byte;
}

static int32_t get_int(lk_zkc *client)
{
    uint32_t wire;
    if (client->at + sizeof wire > client->len)
        test_fails("%s", "ZooKeeper's answer is too short");
    memcpy(&wire, client->frame + client->at, sizeof wire);
    client->at += sizeof wire;
    return (int32_t)ntohl(wire);
}

static int64_t get_long(lk_zkc *client)
{
    uint64_t high = (uint32_t)get_int(client);
    return (int64_t)(high << 32 | (uint32_t)get_int(client));
}

static void get_text(lk_zkc *client, char *text, size_t size)
{
    int32_t wire = get_int(client);
    size_t len = wire > 0 ? (size_t)wire : 0;
    if (client->at + len > client->len)
        test_fails("%s", "ZooKeeper's answer is too short");
    if (text != NULL)
        snprintf(text, size, "%.*s", (int)len, (const char *)client->frame + client->at);
    client->at += len;
}

static void get_stat(lk_zkc *client, lk_zkc_stat *stat)
{
    stat->czxid = get_long(client);
    for (int i = 0; i < 3; i++) /* mzxid, ctime, mtime */
        get_long(client);
    for (int i = 0; i < 3; i++) /* version, cversion, aversion */
        get_int(client);
    stat->session = get_long(client);
    get_int(client); /* dataLength */
    stat->children = get_int(client);
}

/* ------------------------------------------------------------------ requests ---- */

/* False when the connection is no more. */
static bool transfer(lk_zkc *client, bool sending, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t part = sending ? send(client->fd, (char *)bytes + done, len - done, MSG_NOSIGNAL)
                               : recv(client->fd, (char *)bytes + done, len - done, 0);

        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        done += (size_t)part;
    }
    return true;
}

static bool send_frame(lk_zkc *client)
{
    uint32_t wire = htonl((uint32_t)client->len);
    return transfer(client, true, &wire, sizeof wire) && transfer(client, true, client->frame, client->len);
}

static bool receive_frame(lk_zkc *client)
{
    uint32_t wire = 0;
    client->len = client->at = 0;
    if (!transfer(client, false, &wire, sizeof wire) || ntohl(wire) > FRAME_MAX)
        return false;
    client->len = ntohl(wire);
    return transfer(client, false, client->frame, client->len);
}

static void begin(lk_zkc *client, int operation)
{
    client->len = 0;
    put_int(client, operation == OP_AUTH ? XID_AUTH : ++client->xid);
    put_int(client, operation);
}

static int finish(lk_zkc *client)
{
    if (!send_frame(client) || !receive_frame(client))
        test_fails("ZooKeeper gave the test's own client no answer: %s", strerror(errno));
    get_int(client);  /* xid */
    get_long(client); /* zxid */
    return get_int(client);
}

/* The password that a server gives to a session: it is made from the session's id by java.util.Random and a
 * number in ZooKeeper's source (ZooKeeperServer.generatePasswd), the same in each server. */
static void session_password(int64_t session, unsigned char password[PASSWORD])
{
    const uint64_t multiplier = UINT64_C(0x5DEECE66D), mask = (UINT64_C(1) << 48) - 1;
    uint64_t seed = (((uint64_t)session ^ UINT64_C(0xB3415C00)) ^ multiplier) & mask;
    for (int i = 0; i < PASSWORD; i += 4) {
        uint32_t number;

        seed = (seed * multiplier + 0xB) & mask;
        number = (uint32_t)(seed >> 16);
        for (int j = 0; j < 4; j++)
            password[i + j] = (unsigned char)(number >> (8 * j));
    }
}

/* Whoever gives up sooner than LK_TEST_PATIENCE_MS looks at `fd`. */
static lk_zkc *dial(const lk_server *zk, int patience_ms)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)zk->port)};
    const struct timeval patience = {.tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000};
    lk_zkc *client = calloc(1, sizeof *client);
    if (client == NULL || (client->frame = malloc(FRAME_MAX)) == NULL)
        test_fails("out of memory (%s)", "client");
    client->session_ms = SESSION_MS;
    inet_pton(AF_INET, zk->place.address, &address.sin_addr);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1},
               sizeof(int)); /* a frame is sent in two pieces */
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* bounds connect too */
    if (client->fd >= 0 && connect(client->fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(client->fd);
        client->fd = -1;
    }
    return client;
}

static lk_zkc *connect_to(const lk_server *zk)
{
    lk_zkc *client = dial(zk, LK_TEST_PATIENCE_MS);
    if (client->fd < 0)
        test_fails("the test's own client can't connect to port %d: %s", zk->port, strerror(errno));
    return client;
}

static bool greet(lk_zkc *client, int64_t session)
{
    unsigned char password[PASSWORD] = {0};
    if (session != 0)
        session_password(session, password);
    client->len = 0;
    put_int(client, 0);  /* protocol version */
    put_long(client, 0); /* last zxid seen */
    put_int(client, client->session_ms);
    put_long(client, session);
    put_bytes(client, password, sizeof password);
    put_byte(client, 0); /* not read-only */
    return send_frame(client);
}

/* Whether the server's answer gives us the session. */
static bool is_welcome(lk_zkc *client)
{
    if (!receive_frame(client))
        return false;
    get_int(client); /* protocol version */
    return get_int(client) > 0;
}

lk_zkc *lk_zkc_open_for(const lk_server *zk, int session_ms)
{
    lk_zkc *client = connect_to(zk);
    client->session_ms = session_ms;
    if (!greet(client, 0) || !is_welcome(client))
        test_fails("%s", "ZooKeeper gives the test's own client no session");
    return client;
}

lk_zkc *lk_zkc_open(const lk_server *zk)
{
    return lk_zkc_open_for(zk, SESSION_MS);
}

void lk_zkc_drop(lk_zkc *client)
{
    if (client == NULL)
        return;
    if (client->fd >= 0)
        close(client->fd);
    free(client->frame);
    free(client);
}

void lk_zkc_close(lk_zkc *client)
{
    if (client == NULL)
        return;
    begin(client, OP_CLOSE);
    finish(client);
    lk_zkc_drop(client);
}

/* The session's owner comes back as soon as we take it over, and cuts us off; so the request to close follows
 * without waiting for an answer, and is repeated until the server knows of no such session. */
static bool end_session(const lk_server *zk, int64_t session)
{
    lk_zkc *client = connect_to(zk);
    bool gone = false;
    if (greet(client, session)) {
        begin(client, OP_CLOSE);
        gone = send_frame(client) && receive_frame(client) && client->len >= 8 &&
               (get_int(client), get_int(client) <= 0);
    }
    lk_zkc_drop(client);
    return gone;
}

void lk_zkc_end_session(const lk_server *zk, int64_t session)
{
    int64_t until = lk_test_now_ms() + LK_TEST_PATIENCE_MS;
    while (!end_session(zk, session))
        if (lk_test_now_ms() > until)
            test_fails("%s", "the session should end");
}

void lk_zkc_move_session(const lk_server *zk, int64_t session)
{
    lk_zkc *client = connect_to(zk);
    if (!greet(client, session) || !is_welcome(client))
        test_fails("%s", "ZooKeeper does not give the test's own client the session of somebody else");
    lk_zkc_drop(client);
}

bool lk_zkc_ping(lk_zkc *client)
{
    client->len = 0;
    put_int(client, XID_PING);
    put_int(client, OP_PING);
    return send_frame(client) && receive_frame(client);
}

static void begin_create(lk_zkc *client, const char *path, const char *data, int kind)
{
    begin(client, kind == LK_ZKC_CONTAINER ? OP_CREATE_CONTAINER : OP_CREATE);
    put_text(client, path);
    put_text(client, data);
    put_int(client, 1);
    put_int(client, PERMISSION_ALL);
    put_text(client, "world");
    put_text(client, "anyone");
    put_int(client, kind);
}

/* A node that is there already was agreed on, too. */
static bool majority_writes(void *context)
{
    const lk_server *members = context;
    bool agreed = false;
    for (int i = 0; i < LK_ENSEMBLE && !agreed; i++) {
        lk_zkc *client = dial(&members[i], PROBE_MS);

        if (client->fd >= 0 && greet(client, 0) && is_welcome(client)) {
            begin_create(client, "/probe", "", LK_ZKC_PLAIN);
            agreed = send_frame(client) && receive_frame(client) && client->len >= 16;
        }
        lk_zkc_drop(client);
    }
    return agreed;
}

void lk_zkc_require_majority(const lk_server *members)
{
    lk_require(majority_writes, (void *)(uintptr_t)members, "the ensemble should have a majority again");
}

int lk_zkc_create(lk_zkc *client, const char *path, const char *data, int kind, char made[LK_ZKC_NAME_MAX])
{
    int error;
    begin_create(client, path, data, kind);
    error = finish(client);
    if (error == LK_ZKC_OK)
        get_text(client, made, LK_ZKC_NAME_MAX);
    return error;
}

int lk_zkc_delete(lk_zkc *client, const char *path)
{
    begin(client, OP_DELETE);
    put_text(client, path);
    put_int(client, -1);
    return finish(client);
}

int lk_zkc_set(lk_zkc *client, const char *path, const char *data)
{
    begin(client, OP_SET);
    put_text(client, path);
    put_text(client, data);
    put_int(client, -1);
    return finish(client);
}

int lk_zkc_get(lk_zkc *client, const char *path, char *data, size_t size, lk_zkc_stat *stat)
{
    int error;
    begin(client, OP_GET);
    put_text(client, path);
    put_byte(client, 0); /* no watch */
    error = finish(client);
    if (error != LK_ZKC_OK)
        return error;
    get_text(client, data, size);
    if (stat != NULL)
        get_stat(client, stat);
    return error;
}

int lk_zkc_login(lk_zkc *client, const char *user_and_password)
{
    begin(client, OP_AUTH);
    put_int(client, 0);
    put_text(client, "digest");
    put_text(client, user_and_password);
    return finish(client);
}

/* ------------------------------------------------------------------ children ---- */

/* Those without a number come first. */
static int by_number(const void *left, const void *right)
{
    const char *a = left, *b = right;
    long x = strlen(a) > 10 ? atol(a + strlen(a) - 10) : -1;
    long y = strlen(b) > 10 ? atol(b + strlen(b) - 10) : -1;
    return x < y ? -1 : x > y ? 1 : strcmp(a, b);
}

int lk_zkc_list(lk_zkc *client, const char *path, lk_zkc_children *children)
{
    int error;
    int32_t count;
    begin(client, OP_LIST);
    put_text(client, path);
    put_byte(client, 0); /* no watch */
    error = finish(client);
    children->count = 0;
    if (error != LK_ZKC_OK)
        return error;
    count = get_int(client);
    if (count > LK_ZKC_CHILDREN_MAX)
        test_fails("%s has %d children, too many for a test", path, (int)count);
    for (int32_t i = 0; i < count; i++)
        get_text(client, children->names[i], LK_ZKC_NAME_MAX);
    children->count = count > 0 ? (size_t)count : 0;
    qsort(children->names, children->count, sizeof children->names[0], by_number);
    return error;
}

/* The server's own nodes stay. */
static bool remove_tree(lk_zkc *client, const char *path)
{
    if (strcmp(path, "/zookeeper") == 0)
        return true;
    const int error = lk_zkc_clear(client, path) ? lk_zkc_delete(client, path) : LK_ZKC_NOAUTH;
    return error == LK_ZKC_OK || error == LK_ZKC_NONODE;
}

bool lk_zkc_clear(lk_zkc *client, const char *path)
{
    lk_zkc_children *children = malloc(sizeof *children);
    if (children == NULL)
        test_fails("out of memory (%s)", "children");
    const int error = lk_zkc_list(client, path, children);
    bool cleared = error == LK_ZKC_OK || error == LK_ZKC_NONODE;
    for (size_t i = 0; i < children->count && cleared; i++) {
        char child[1024];
        const int length =
            snprintf(child, sizeof child, "%s/%s", strcmp(path, "/") == 0 ? "" : path, children->names[i]);
        cleared = length < (int)sizeof child && remove_tree(client, child);
    }
    free(children);
    return cleared;
}

size_t lk_zkc_count(lk_zkc *client, const char *path)
{
    lk_zkc_children *children = malloc(sizeof *children);
    size_t count;
    if (children == NULL)
        test_fails("out of memory (%s)", "children");
    lk_zkc_list(client, path, children);
    count = children->count;
    free(children);
    return count;
}

struct count {
    lk_zkc *client;
    const char *path;
    size_t wanted;
};

static bool has_count(void *context)
{
    struct count *count = context;
    return lk_zkc_count(count->client, count->path) == count->wanted;
}

void lk_zkc_require_count(lk_zkc *client, const char *path, size_t count)
{
    struct count wanted = {client, path, count};
    char what[LK_ZKC_NAME_MAX + 64];
    snprintf(what, sizeof what, "%s should have %zu children", path, count);
    lk_require(has_count, &wanted, what);
}

void lk_zkc_nth(lk_zkc *client, const char *path, size_t nth, char child[LK_ZKC_NAME_MAX])
{
    lk_zkc_children *children = malloc(sizeof *children);
    if (children == NULL)
        test_fails("out of memory (%s)", "children");
    if (lk_zkc_list(client, path, children) != LK_ZKC_OK || children->count <= nth)
        test_fails("%s has %zu children, so not number %zu", path, children->count, nth);
    if (snprintf(child, LK_ZKC_NAME_MAX, "%s/%s", path, children->names[nth]) >= LK_ZKC_NAME_MAX)
        test_fails("the name of a child of %s is too long", path);
    free(children);
}
