/* redis_pair.c: see redis_pair.h. */
#include "redis_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "servers/wait.h"

enum { PATIENCE_MS = 10000 };

static bool fails(redis_pair *pair, const char *why)
{
    (void)snprintf(pair->wrong, sizeof pair->wrong, "%s", why);
    return false;
}

/* ------------------------------------------------------------------ the real one ---- */

int pair_connect(const lk_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", server->directory);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void send_real(int fd, lk_sr_text bytes)
{
    while (bytes.len > 0) {
        const ssize_t n = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n < 0)
            return; /* it has closed: what it does next says so */
        bytes.data += n;
        bytes.len -= (size_t)n;
    }
}

/* At most so many bytes; 0: it has closed, -1: it says nothing for long. */
static ssize_t receive_real(int fd, char *data, size_t size)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN, .revents = 0};
    const ssize_t n = poll(&waits, 1, PATIENCE_MS) > 0 ? recv(fd, data, size, 0) : -1;
    return n < 0 && errno == ECONNRESET ? 0 : n;
}

/* A command of a line that nobody compares; its answer, which has to come whole and be short. */
static bool command(redis_pair *pair, int fd, const char *line, char *answer, size_t size)
{
    lk_sr_bytes bytes = {NULL, 0, 0};
    lk_sr_print(&bytes, "%s\r\n", line);
    send_real(fd, lk_sr_view(&bytes));
    lk_sr_bytes_free(&bytes);
    const ssize_t n = receive_real(fd, answer, size - 1);
    answer[n > 0 ? n : 0] = '\0';
    if (n > 0 && answer[0] != '-')
        return true;
    (void)snprintf(pair->wrong, sizeof pair->wrong, "the real server answers '%.60s' with '%.120s'", line,
                   answer);
    return false;
}

static bool start_clock(redis_pair *pair)
{
    char directory[LK_SCRATCH_PATH];
    if (!lk_scratch_make("clock", directory, pair->wrong, sizeof pair->wrong))
        return false;
    (void)snprintf(pair->page, sizeof pair->page, "%s/page", directory);
    const int fd = open(pair->page, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof *pair->clock) == 0)
        memory = mmap(NULL, sizeof *pair->clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return fails(pair, "there is no memory for the clock");
    pair->clock = memory;
    *pair->clock = INT64_C(1600000000000000);
    return true;
}

bool pair_command(redis_pair *pair, const char *line, char *answer, size_t size)
{
    return command(pair, pair->control, line, answer, size);
}

/* Of replicas, because their clock stands still, and then goes on by hours. */
static const char *const common_options[] = {"--enable-debug-command",
                                             "yes",
                                             "--repl-diskless-sync-delay",
                                             "0",
                                             "--repl-timeout",
                                             "2000000000",
                                             "--hz",
                                             "500",
                                             "--user",
                                             "admin",
                                             "on",
                                             ">admin",
                                             "~*",
                                             "&*",
                                             "+@all",
                                             NULL};

static bool start_with(redis_pair *pair, lk_server *server, const char *const *options)
{
    const lk_server_setup setup = {.options = options};
    setenv("LOCKER_CLOCK_PAGE", pair->page, 1);
    setenv("LD_PRELOAD", CLOCK_SHIM, 1);
    const bool started = lk_server_start(server, &lk_server_redis, &setup) && lk_server_await(server);
    unsetenv("LD_PRELOAD");
    return started || fails(pair, server->error);
}

bool pair_start_another(redis_pair *pair, lk_server *server)
{
    return start_with(pair, server, common_options);
}

static void make(redis_pair *pair)
{
    *pair = (redis_pair){.control = -1};
    for (int i = 0; i < PAIR_CONNECTIONS; i++)
        pair->connections[i] = (redis_connection){.fd = -1, .over = true};
}

static bool take_control(redis_pair *pair)
{
    char answer[256];
    lk_server_version(&pair->real, answer, sizeof answer);
    pair->is_valkey = strncmp(answer, "Valkey", 6) == 0;
    pair->control = pair_connect(&pair->real);
    return command(pair, pair->control, "AUTH admin admin", answer, sizeof answer) &&
           command(pair, pair->control, "DEBUG SET-ACTIVE-EXPIRE 0", answer, sizeof answer);
}

bool pair_start(redis_pair *pair)
{
    make(pair);
    return start_clock(pair) && pair_start_another(pair, &pair->real) && take_control(pair);
}

bool pair_start_node(redis_pair *pair, const redis_pair *beside, const char *const *options)
{
    size_t count = 0;
    make(pair);
    pair->is_node = true;
    pair->beside = beside;
    for (size_t i = 0; common_options[i] != NULL; i++)
        pair->options[count++] = common_options[i];
    for (size_t i = 0; options[i] != NULL; i++)
        pair->options[count++] = options[i];
    if (beside != NULL) {
        pair->clock = beside->clock;
        memcpy(pair->page, beside->page, sizeof pair->page);
    }
    return (beside != NULL || start_clock(pair)) && start_with(pair, &pair->real, pair->options) &&
           take_control(pair);
}

void pair_stop(redis_pair *pair)
{
    close(pair->control);
    lk_server_remove(&pair->real);
    lk_sr_bytes_free(&pair->expected);
    lk_sr_bytes_free(&pair->got);
    if (pair->beside != NULL)
        return;
    if (pair->clock != NULL)
        (void)munmap(pair->clock, sizeof *pair->clock);
    lk_scratch_close();
}

/* ------------------------------------------------------------------ a sequence ---- */

static bool reset_real(redis_pair *pair)
{
    static const char *const lines[] = {
        "CLIENT UNPAUSE",
        "REPLICAOF NO ONE", /* to which a node of a cluster says no */
        "CONFIG SET maxmemory 0 min-replicas-to-write 0 replica-serve-stale-data yes requirepass \"\"",
        "ACL DELUSER app",
        "ACL SETUSER default reset on nopass ~* &* +@all",
        "FLUSHALL",
        "SCRIPT FLUSH",
    };
    char answer[256];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!(pair->is_node && i == 1) && !command(pair, pair->control, lines[i], answer, sizeof answer))
            return false;
    }
    return true;
}

bool pair_begin(redis_pair *pair, uint64_t seed, int64_t clock_us)
{
    char id[256], answer[256];
    pair->wrong[0] = '\0';
    pair->base_us = *pair->clock = clock_us;
    if (!reset_real(pair))
        return false;
    for (int i = 0; i < PAIR_CONNECTIONS; i++) {
        pair->connections[i].fd = pair_connect(&pair->real);
        if (!command(pair, pair->connections[i].fd, i == 0 ? "CLIENT ID" : "PING", i == 0 ? id : answer,
                     sizeof answer))
            return false; /* and not before it is taken on, as the user that it begins as */
    }
    const lk_sr_setup setup = {.seed = seed,
                               .host = "127.0.0.1",
                               .port = pair->real.port,
                               .clock_ns = clock_us * 1000,
                               .first_client = strtoll(id + 1, NULL, 10)};
    pair->simulated = lk_sr_new(&setup);
    for (int i = 0; i < PAIR_CONNECTIONS; i++) {
        pair->connections[i].client = lk_sr_connect(pair->simulated, "socket", NULL);
        pair->connections[i].over = false;
    }
    return true;
}

void pair_end(redis_pair *pair)
{
    for (int i = 0; i < PAIR_CONNECTIONS; i++) {
        if (pair->connections[i].fd >= 0)
            close(pair->connections[i].fd);
        pair->connections[i] = (redis_connection){.fd = -1, .over = true};
    }
    lk_sr_free(pair->simulated);
    pair->simulated = NULL;
}

static bool was_read(void *fd)
{
    int unread = 0;
    return ioctl(*(int *)fd, SIOCOUTQ, &unread) != 0 || unread == 0;
}

/* Until the real one has taken what it does not answer, lest it does so at another time. In a pause it
 * answers nothing, and no time matters. */
static bool is_taken(redis_pair *pair, int fd)
{
    char answer[64];
    if (lk_sr_is_paused(pair->simulated))
        return lk_until(was_read, &fd, PATIENCE_MS);
    return command(pair, pair->control, "ECHO there", answer, sizeof answer);
}

bool pair_send(redis_pair *pair, int connection, lk_sr_text bytes, lk_sr_text planted, size_t piece)
{
    const redis_connection *c = &pair->connections[connection];
    lk_sr_text rest = planted.len > 0 ? planted : bytes;
    send_real(c->fd, bytes);
    while (rest.len > 0) {
        const size_t len = piece > 0 && piece < rest.len ? piece : rest.len;
        lk_sr_feed(c->client, (lk_sr_text){rest.data, len});
        rest.data += len;
        rest.len -= len;
    }
    return lk_sr_output(c->client).len > 0 || is_taken(pair, c->fd);
}

/* Redis looks at its clock now and then; when it has answered it has. */
int64_t pair_advance(redis_pair *pair, int64_t us)
{
    char answer[64];
    const int64_t now_us = *pair->clock - pair->base_us, due_us = (lk_sr_due(pair->simulated) - 1) / 1000 + 1;
    if (due_us > now_us && due_us - now_us < us)
        us = due_us - now_us;
    *pair->clock += us;
    lk_sr_advance(pair->simulated, (*pair->clock - pair->base_us) * 1000);
    if (lk_sr_is_paused(pair->simulated) || command(pair, pair->control, "ECHO then", answer, sizeof answer))
        return us;
    return -1;
}

bool pair_follow(redis_pair *pair)
{
    char answer[64];
    lk_sr_advance(pair->simulated, (*pair->clock - pair->base_us) * 1000);
    return command(pair, pair->control, "ECHO then", answer, sizeof answer);
}

/* ------------------------------------------------------------------ comparing ---- */

static bool differs(redis_pair *pair, int connection, const char *how)
{
    (void)snprintf(pair->wrong, sizeof pair->wrong, "connection %d: %s", connection, how);
    return false;
}

/* What Valkey words otherwise, and shorter, of what locks hear: its codes are the same. */
static const char *const of_valkey[][2] = {
    {"No matching script. Please use EVAL.", "No matching script."},
    {"Unknown Redis command called", "Unknown command called"},
    {"Wrong number of args calling Redis command", "Wrong number of args calling command"},
    {"Please specify at least one argument for this redis lib call",
     "Please specify at least one argument for this call"},
    {"Lua redis lib command arguments must be", "Command arguments must be"},
};

static void replace_all(lk_sr_bytes *text, const char *ours, const char *theirs)
{
    const size_t len = strlen(ours), less = len - strlen(theirs);
    char *at = text->data;
    while (text->len > 0 && (at = memmem(at, text->len - (size_t)(at - text->data), ours, len)) != NULL) {
        char *const rest = at + len;
        (void)memcpy(at, theirs, len - less);
        (void)memmove(rest - less, rest, text->len - (size_t)(rest - text->data));
        text->len -= less;
        at = rest - less;
    }
}

/* What the simulated server has said, as the real one says it. */
static void expect(redis_pair *pair, lk_sr_client *client)
{
    lk_sr_bytes_set(&pair->expected, lk_sr_output(client));
    lk_sr_sent(client, pair->expected.len);
    for (size_t i = 0; pair->is_valkey && i < sizeof of_valkey / sizeof of_valkey[0]; i++)
        replace_all(&pair->expected, of_valkey[i][0], of_valkey[i][1]);
}

/* Reads as many bytes as the simulated server has written. */
static bool read_as_many(redis_pair *pair, int connection, int fd)
{
    char data[65536];
    while (pair->got.len < pair->expected.len) {
        const size_t left = pair->expected.len - pair->got.len;
        const ssize_t n = receive_real(fd, data, left < sizeof data ? left : sizeof data);
        if (n <= 0)
            return differs(pair, connection,
                           n == 0 ? "the real server closes it" : "the real server says less");
        lk_sr_put(&pair->got, (lk_sr_text){data, (size_t)n});
        if (memcmp(pair->got.data, pair->expected.data, pair->got.len) != 0)
            return differs(pair, connection, "another answer");
    }
    return true;
}

static bool ends(redis_pair *pair, int connection)
{
    redis_connection *c = &pair->connections[connection];
    char data[256];
    const ssize_t n = receive_real(c->fd, data, sizeof data);
    if (n != 0)
        return differs(pair, connection, "the real server does not close it");
    c->over = true;
    lk_sr_disconnect(c->client);
    c->client = NULL;
    return true;
}

static bool says_no_more(redis_pair *pair, int connection)
{
    char data[4096];
    const ssize_t n = recv(pair->connections[connection].fd, data, sizeof data, MSG_DONTWAIT);
    if (n < 0)
        return true;
    lk_sr_put(&pair->got, (lk_sr_text){data, (size_t)n});
    return differs(pair, connection, n == 0 ? "the real server has closed it" : "the real server says more");
}

/* Messages with more than one word: those that are drawn by themselves have one. */
static uint64_t count_told(lk_sr_text text)
{
    static const char begin[] = "$7\r\nmessage\r\n$44\r\n";
    uint64_t told = 0;
    const char *end = text.data + text.len, *at = text.data;
    while (at != NULL && (at = memmem(at, (size_t)(end - at), begin, sizeof begin - 1)) != NULL) {
        at += sizeof begin - 1;
        const char *payload = at + 44 + 2, *line = memchr(payload, '\n', (size_t)(end - payload));
        told += line != NULL && end - line > 33 && line[33] == ' ';
    }
    return told;
}

bool pair_agrees(redis_pair *pair)
{
    pair->told = 0;
    for (int i = 0; i < PAIR_CONNECTIONS; i++) {
        redis_connection *c = &pair->connections[i];
        if (c->over)
            continue;
        expect(pair, c->client);
        pair->got.len = 0;
        pair->told += pair->expected.len > 0 ? count_told(lk_sr_view(&pair->expected)) : 0;
        if (!read_as_many(pair, i, c->fd) ||
            !(lk_sr_is_closed(c->client) ? ends(pair, i) : says_no_more(pair, i)))
            return false;
    }
    return true;
}

bool pair_answers_agree(redis_pair *pair, int fd, lk_sr_client *client, lk_sr_text request)
{
    send_real(fd, request);
    lk_sr_feed(client, request);
    expect(pair, client);
    pair->got.len = 0;
    return read_as_many(pair, -1, fd);
}

bool pair_is_of_another_release(const redis_pair *pair)
{
    char version[64] = "";
    lk_server_version(&pair->real, version, sizeof version);
    if (strncmp(version, "Redis 7.0.", 10) == 0)
        return false;
    (void)printf("the simulated server answers as Redis 7.0, and here is %s: compared in what locks ask\n",
                 version);
    return true;
}

bool pair_is_replicated(redis_pair *pair)
{
    char answer[64];
    return command(pair, pair->control, "PUBLISH nobody all", answer, sizeof answer) &&
           command(pair, pair->control, "WAIT 1 10000", answer, sizeof answer) &&
           (strcmp(answer, ":1\r\n") == 0 || fails(pair, "the real replica does not follow"));
}

/* ------------------------------------------------------------------ INFO ---- */

/* Reads INFO's answer until no more comes of it. */
static void read_info(redis_pair *pair)
{
    char data[16384];
    size_t wanted = 1;
    pair->got.len = 0;
    while (pair->got.len < wanted) {
        const ssize_t n = receive_real(pair->connections[0].fd, data, sizeof data);
        if (n <= 0)
            return;
        lk_sr_put(&pair->got, (lk_sr_text){data, (size_t)n});
        const char *end = memchr(pair->got.data, '\n', pair->got.len);
        wanted = end != NULL ? (size_t)(end - pair->got.data) + 1 + strtoul(pair->got.data + 1, NULL, 10) + 2
                             : pair->got.len + 1;
    }
}

/* The line with its end; of one that differs from run to run its name alone. */
static bool has_line(lk_sr_text info, lk_sr_text line)
{
    static const char *const differing[] = {"run_id:", "master_replid:", "master_repl_offset:"};
    for (size_t i = 0; i < sizeof differing / sizeof differing[0]; i++) {
        const size_t len = strlen(differing[i]);
        if (line.len > len && memcmp(line.data, differing[i], len) == 0)
            line.len = len;
    }
    return memmem(info.data, info.len, line.data, line.len) != NULL;
}

static bool section_agrees(redis_pair *pair, const char *section)
{
    lk_sr_bytes request = {NULL, 0, 0};
    lk_sr_print(&request, "INFO %s\r\n", section);
    (void)pair_send(pair, 0, lk_sr_view(&request), (lk_sr_text){NULL, 0}, 0);
    lk_sr_bytes_free(&request);
    lk_sr_client *client = pair->connections[0].client;
    expect(pair, client);
    read_info(pair);
    lk_sr_text rest = lk_sr_view(&pair->expected);
    for (const char *end; rest.len > 0; rest.len -= (size_t)(end - rest.data), rest.data = end) {
        end = (const char *)memchr(rest.data, '\n', rest.len) + 1;
        const bool length = rest.data[0] == '$';
        if (!length && !has_line(lk_sr_view(&pair->got), (lk_sr_text){rest.data, (size_t)(end - rest.data)}))
            return differs(pair, 0, "another INFO");
    }
    return true;
}

bool pair_info_agrees(redis_pair *pair)
{
    return section_agrees(pair, "server") && section_agrees(pair, "replication") &&
           section_agrees(pair, "memory");
}
