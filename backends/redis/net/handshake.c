/* handshake.c: from a connected socket to a server that serves us: log in, choose the database, load the
 * scripts, and ask if it is a master, all in one flight. A Sentinel is asked for the master instead. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "connect.h"

/* FLIGHT_ROOM: room for all that is sent. So the buffer does not move and leave a copy of the password
 * behind. */
enum {
    STEP_MAX = LK_REDIS_SCRIPTS_MAX + 10,
    FLIGHT_ROOM = 1 << 15,
    TLS_ALERT = 21 /* the first byte of the answer of a server that speaks only TLS */
};

enum step {
    STEP_AUTH,
    STEP_SENTINEL,
    STEP_HELLO,
    STEP_SELECT,
    STEP_SLOTS,
    STEP_LOAD,
    STEP_RUN,
    STEP_ROLE,
    STEP_INFO,
    STEP_TIME
};

/* The commands of the flight, and the purpose of each. */
struct flight {
    lk_buffer bytes;
    enum step step[STEP_MAX];
    redisReply *reply[STEP_MAX];
    size_t count;
    bool failed; /* no memory */
};

static void add(struct flight *f, enum step step, const lk_redis_command a)
{
    char *room = lk_buffer_room(&f->bytes, lk_redis_command_room(&a));
    if (room == NULL) {
        f->failed = true;
        return;
    }
    f->bytes.len += (size_t)(lk_redis_command_put(&a, room) - room);
    f->step[f->count++] = step;
}

/* Put the commands into the flight. ROLE comes before questions about a master, so that they are asked of
 * a master. */
static void fill(struct flight *f, const lk_redis_target *t, const char *password,
                 const lk_redis_scripts *scripts)
{
    char database[LK_REDIS_NUMBER_MAX];
    if (password != NULL && t->user != NULL)
        add(f, STEP_AUTH, LK_REDIS_COMMAND("AUTH", t->user, password));
    else if (password != NULL)
        add(f, STEP_AUTH, LK_REDIS_COMMAND("AUTH", password));
    if (t->master_name != NULL) {
        add(f, STEP_SENTINEL, LK_REDIS_COMMAND("SENTINEL", "GET-MASTER-ADDR-BY-NAME", t->master_name));
        return;
    }
    add(f, STEP_HELLO, LK_REDIS_COMMAND("HELLO", "2")); /* every user may run it; Redis 5 does not know it */
    (void)lk_redis_number_text(database, (uint64_t)t->database);
    if (t->database != 0)
        add(f, STEP_SELECT, LK_REDIS_COMMAND("SELECT", database));
    if (t->cluster)
        add(f, STEP_SLOTS, LK_REDIS_COMMAND("CLUSTER", "SLOTS"));
    for (size_t i = 0; scripts != NULL && i < scripts->count; i++)
        add(f, STEP_LOAD, LK_REDIS_COMMAND("SCRIPT", "LOAD", scripts->text[i]));
    if (scripts != NULL &&
        scripts->hash != NULL) /* only at first: later, a missing script is loaded when it is run */
        add(f, STEP_RUN, LK_REDIS_COMMAND("EVALSHA", "0000000000000000000000000000000000000000", "0"));
    add(f, STEP_ROLE, LK_REDIS_COMMAND("ROLE"));
    add(f, STEP_INFO, LK_REDIS_COMMAND("INFO", "server"));
    add(f, STEP_INFO, LK_REDIS_COMMAND("INFO", "replication"));
    if (scripts != NULL) {
        add(f, STEP_INFO, LK_REDIS_COMMAND("INFO", "memory"));
        add(f, STEP_TIME, LK_REDIS_COMMAND("TIME"));
    }
}

/* Hide the password. A server without AUTH may repeat the command in its error. */
static void hide(redisReply *reply, const char *password)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR || password == NULL || password[0] == '\0')
        return;
    for (char *at = reply->str; (at = strstr(at, password)) != NULL; at += strlen(password))
        memset(at, '*', strlen(password));
}

/* Judge an error in reply to a command of the flight: return OK if it does not matter. */
static locker_status judge(const lk_redis_target *t, enum step step, const redisReply *reply,
                           const char *peer, lk_redis_failure *why)
{
    const lk_redis_fault fault = lk_redis_reply_fault(reply);
    const char *const name = t->service->name;
    locker_error *err = &why->error;
    if (fault == LK_REDIS_FAULT_NONE || reply->str == NULL) /* an error without a text is none */
        return LOCKER_OK;
    why->transient = fault == LK_REDIS_FAULT_TRANSIENT;
    if (why->transient)
        return lk_redis_reply_error(reply, "connecting", err);
    if (strncmp(reply->str, "NOAUTH", 6) == 0)
        return lk_denied(err, "%s at %s requires a password; set %s", name, peer, t->service->password);
    if (step == STEP_AUTH && strstr(reply->str, "no password is set") != NULL)
        return lk_denied(err, "%s at %s has no password set; leave the password out of the configuration",
                         name, peer);
    if (step == STEP_AUTH && strstr(reply->str, "without any password configured") != NULL)
        return lk_denied(err,
                         "%s at %s has no password set for its default user; leave the password "
                         "out of the configuration, or name a user",
                         name, peer);
    if (step == STEP_AUTH)
        return lk_denied(err,
                         "%s at %s refuses user '%s' with this password; correct the user or the password",
                         name, peer, t->user != NULL ? t->user : "default");
    if (step == STEP_SENTINEL && fault == LK_REDIS_FAULT_DENIED)
        return lk_denied(err,
                         "Sentinel at %s does not let user '%s' ask for the master (%s); give this user the "
                         "right +sentinel|get-master-addr-by-name, or set sentinel_user to another user",
                         peer, t->user != NULL ? t->user : "default", reply->str);
    why->transient = step == STEP_SENTINEL && strstr(reply->str, "unknown command") == NULL;
    if (why->transient) /* too many clients, or protected mode */
        return lk_unavailable(err, "%s at %s refuses the connection: %s", name, peer, reply->str);
    if (step == STEP_SENTINEL)
        return lk_misconfigured(err,
                                "the server at %s is not a Sentinel (%s); name the Sentinels, "
                                "usually at port 26379, or name the server itself with %s://",
                                peer, reply->str, t->service->scheme);
    if (step == STEP_SLOTS && fault == LK_REDIS_FAULT_DENIED)
        return lk_denied(err, "%s at %s denies CLUSTER SLOTS (%s); give the user the right +cluster|slots",
                         name, peer, reply->str);
    if (step == STEP_SLOTS)
        return lk_misconfigured(err, "%s at %s is not a node of a cluster (%s); write %s%s://%s", name, peer,
                                reply->str, t->service->scheme, t->tls.on ? "s" : "", peer);
    if (step == STEP_SELECT && fault == LK_REDIS_FAULT_DENIED)
        return lk_redis_reply_error(reply, "choosing the database", err);
    if (step == STEP_SELECT)
        return lk_misconfigured(err, "%s at %s has no database %lld (%s); correct the path or db", name, peer,
                                (long long)t->database, reply->str);
    if ((step == STEP_RUN || step == STEP_TIME) && lk_redis_reply_is_unknown_command(reply))
        return lk_redis_reply_error(reply, "connecting", err);
    return LOCKER_OK; /* without loaded scripts their texts are sent; a server that hides its role counts as a master */
}

/* Read the answer to ROLE: ["slave", host, port, ...] of a replica, ["master", offset, [replicas]] of a
 * master. */
static void read_role(const redisReply *reply, lk_redis_socket *socket, char *master)
{
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
        reply->element[2]->type == REDIS_REPLY_ARRAY)
        socket->replicas = (int64_t)reply->element[2]->elements;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING || strcmp(reply->element[0]->str, "slave") != 0 ||
        reply->element[1]->type != REDIS_REPLY_STRING || reply->element[2]->type != REDIS_REPLY_INTEGER)
        return;
    lk_redis_peer_name(reply->element[1]->str, (int)reply->element[2]->integer, master);
}

/* Read a port at the end of a line of INFO. 0: there is none. */
static int read_port(const char *text)
{
    char *end;
    const unsigned long port = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && (*end == '\0' || *end == '\r') && port <= 65535 ? (int)port
                                                                                               : 0;
}

static bool is_host(const char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0 && len <= 255;
}

/* Read a Sentinel's answer: [host, port], or nil. */
static locker_status read_master(const lk_redis_target *t, const redisReply *reply, const char *peer,
                                 char *master, locker_error *err)
{
    if (reply->type == REDIS_REPLY_NIL)
        return lk_misconfigured(
            err, "Sentinel at %s watches no master named '%.100s'; correct the name in the URI's path", peer,
            t->master_name);
    int port = 0;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING)
        port = read_port(reply->element[1]->str);
    if (port == 0 || !is_host(reply->element[0]->str))
        return locker_error_set(err, LOCKER_PROTOCOL, 0,
                                "Sentinel at %s answers without an address of the "
                                "master; check that this server is a Sentinel",
                                peer);
    lk_redis_peer_name(reply->element[0]->str, port, master);
    return LOCKER_OK;
}

/* Return a field of HELLO's answer, a list of names and values. NULL: it has none of this type. */
static const redisReply *hello_field(const redisReply *reply, const char *name, int type)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *value = reply->element[i + 1];
        if (reply->element[i]->type == REDIS_REPLY_STRING && strcmp(reply->element[i]->str, name) == 0)
            return value->type == type ? value : NULL;
    }
    return NULL;
}

/* Return where the value of a field of INFO's answer begins. NULL: there is none. */
static const char *info_field(const redisReply *reply, const char *name)
{
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    return at != NULL && (at == reply->str || at[-1] == '\n') ? at + strlen(name) : NULL;
}

/* Read the lines of a replica in INFO's answer. */
static void read_role_of_info(const redisReply *reply, char *master)
{
    const char *const role = info_field(reply, "role:"), *const host = info_field(reply, "master_host:"),
                      *const port = info_field(reply, "master_port:");
    char name[256];
    if (role == NULL || strncmp(role, "slave", 5) != 0 || host == NULL || port == NULL)
        return;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(host, "\r\n"), host);
    lk_redis_peer_name(name, read_port(port), master);
}

static void read_id(const redisReply *reply, const char *name, char out[LK_REDIS_SERVER_ID_LEN + 1])
{
    const char *id = info_field(reply, name);
    if (id != NULL && strspn(id, "0123456789abcdef") == LK_REDIS_SERVER_ID_LEN)
        (void)snprintf(out, LK_REDIS_SERVER_ID_LEN + 1, "%s", id);
}

/* Return true if the server is part of a cluster, in which each slot has a server. */
static bool is_in_cluster(enum step step, const redisReply *reply)
{
    if (step == STEP_HELLO) {
        const redisReply *mode = hello_field(reply, "mode", REDIS_REPLY_STRING);
        return mode != NULL && strcmp(mode->str, "cluster") == 0;
    }
    const char *mode = step == STEP_INFO ? info_field(reply, "redis_mode:") : NULL;
    return mode != NULL && strncmp(mode, "cluster", 7) == 0;
}

/* Read the server's identity and its id of this connection. */
static void read_identity(enum step step, const redisReply *reply, lk_redis_socket *socket)
{
    const redisReply *id = step == STEP_HELLO ? hello_field(reply, "id", REDIS_REPLY_INTEGER) : NULL;
    if (id != NULL)
        socket->client_id = id->integer;
    if (step != STEP_INFO)
        return;
    const char *const most = info_field(reply, "maxmemory:"), *const policy =
                                                                  info_field(reply, "maxmemory_policy:");
    if (most != NULL && policy != NULL)
        socket->evicts = *most != '0' && strncmp(policy, "noeviction", 10) != 0;
    read_id(reply, "run_id:", socket->server.run);
    read_id(reply, "master_replid:", socket->server.replication);
}

static locker_status read_answer(const lk_redis_target *t, enum step step, const redisReply *reply,
                                 lk_redis_socket *socket, char *master, lk_redis_failure *why)
{
    const locker_status status = judge(t, step, reply, socket->peer, why);
    if (status != LOCKER_OK)
        return status;
    if (step == STEP_SENTINEL)
        return read_master(t, reply, socket->peer, master, &why->error);
    if (!t->cluster && is_in_cluster(step, reply))
        return lk_misconfigured(&why->error,
                                "%s at %s is a node of a cluster and has only a part "
                                "of the locks; write %s%s+cluster://%s",
                                t->service->name, socket->peer, t->service->scheme, t->tls.on ? "s" : "",
                                socket->peer);
    if (step == STEP_SLOTS && socket->map == NULL) {
        why->transient = true;
        return lk_unavailable(&why->error,
                              "%s at %s knows no slots: its cluster does not exist yet, or "
                              "the node was removed from it; check CLUSTER NODES",
                              t->service->name, socket->peer);
    }
    read_identity(step, reply, socket);
    if (step == STEP_INFO && master[0] == '\0') /* for a user without the right to ROLE */
        read_role_of_info(reply, master);
    if (step == STEP_ROLE)
        read_role(reply, socket, master);
    if (step == STEP_TIME && lk_redis_reply_time(reply, &socket->server_us))
        socket->server_at = lk_redis_system_now();
    return LOCKER_OK;
}

static bool read_answers(const lk_redis_target *t, const struct flight *f, lk_redis_socket *socket,
                         const lk_redis_scripts *scripts, char *master, lk_redis_failure *why)
{
    size_t script = 0;
    for (size_t i = 0; i < f->count; i++) {
        const redisReply *reply = f->reply[i];
        if (read_answer(t, f->step[i], reply, socket, master, why) != LOCKER_OK) {
            why->permanent = !why->transient;
            return false;
        }
        if (f->step[i] != STEP_LOAD || scripts->hash == NULL)
            continue;
        if (reply->type == REDIS_REPLY_STRING && reply->str != NULL && reply->len == LK_REDIS_HASH_LEN)
            memcpy(scripts->hash[script], reply->str, LK_REDIS_HASH_LEN + 1);
        script++;
    }
    return true;
}

/* Return the position of the map's answer in the flight; the number of commands, if no map is asked for. */
static size_t place_of_map(const struct flight *f)
{
    size_t i = 0;
    while (i < f->count && f->step[i] != STEP_SLOTS)
        i++;
    return i;
}

/* Send the flight and read the answers. The map is read as it comes. Return 0 or an errno. */
static int exchange(struct flight *f, lk_redis_socket *socket, int64_t until)
{
    const size_t at = place_of_map(f);
    if (at < f->count)
        socket->guard.passing = at + 1;
    int failure = lk_redis_socket_exchange(socket, f->bytes.data, f->bytes.len, f->reply, at, until);
    if (failure != 0 || at == f->count)
        return failure;
    lk_redis_map_reading *const reading = lk_redis_map_begin(socket->reader, socket->peer);
    if (reading == NULL)
        return ENOMEM;
    failure = lk_redis_socket_exchange(socket, "", 0, &f->reply[at], 1, until);
    socket->map = lk_redis_map_end(reading);
    return failure != 0
               ? failure
               : lk_redis_socket_exchange(socket, "", 0, &f->reply[at + 1], f->count - at - 1, until);
}

bool lk_redis_handshake(const lk_redis_target *t, lk_redis_socket *socket, const lk_redis_scripts *scripts,
                        int64_t until, char master[LK_REDIS_PEER_MAX], lk_redis_failure *why)
{
    struct flight f = {0};
    bool served = false;
    master[0] = '\0';
    why->permanent = why->transient = false;
    (void)lk_buffer_room(&f.bytes, FLIGHT_ROOM);
    char *const anew = t->password_file != NULL ? locker_secret_read(t->password_file, NULL) : NULL;
    const char *const password = anew != NULL ? anew : t->password;
    fill(&f, t, password, scripts);
    const int failure = f.failed ? ENOMEM : exchange(&f, socket, until);
    hide(f.reply[0], password);
    if (failure == 0) {
        served = read_answers(t, &f, socket, scripts, master, why);
    } else if (socket->tls != NULL && lk_tls_told(socket->tls, socket->peer, &why->error, &why->permanent)) {
        /* with TLS 1.3, a server reports a bad client certificate only now */
    } else if (socket->tls == NULL && socket->guard.head[0] == TLS_ALERT) {
        why->permanent = true;
        locker_error_set(&why->error, LOCKER_PROTOCOL, 0,
                         "the server at %s speaks TLS; %s, or name its port without TLS", socket->peer,
                         t->service->with_tls);
    } else if (failure == EPROTO) {
        why->permanent = true;
        locker_error_set(&why->error, LOCKER_PROTOCOL, 0,
                         "the server at %s does not speak the Redis protocol; check host and port",
                         socket->peer);
    } else if (failure == ENOMEM) {
        lk_out_of_memory(&why->error);
    } else if (f.reply[0] != NULL && f.reply[0]->type == REDIS_REPLY_ERROR) {
        static const char full[] = "ERR max number of clients"; /* the other reason is protected mode */
        const bool is_full = strncmp(f.reply[0]->str, full, sizeof full - 1) == 0;
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, is_full ? EUSERS : 0,
                         "%s at %s refuses the connection: %s", t->service->name, socket->peer,
                         f.reply[0]->str);
    } else {
        const bool may_be_tls = socket->tls == NULL && failure == ECONNRESET;
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure,
                         "%s at %s did not complete the handshake: %s; check that it is a %s server%s%s",
                         t->service->name, socket->peer, strerror(failure), t->service->name,
                         may_be_tls ? "; if this is its TLS port, " : "",
                         may_be_tls ? t->service->with_tls : "");
    }
    for (size_t i = 0; i < f.count; i++)
        freeReplyObject(f.reply[i]);
    if (f.bytes.data != NULL)
        explicit_bzero(f.bytes.data, f.bytes.len);
    free(f.bytes.data);
    if (anew != NULL)
        explicit_bzero(anew, strlen(anew));
    free(anew);
    return served;
}
