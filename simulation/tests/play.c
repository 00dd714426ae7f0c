/* play.c: see play.h. */
#include "play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "render.h"
#include "wire.h"

enum { SESSIONS = 3, STEPS = 14, BATCH_MAX = 4, EVENTS_MAX = 256, MS = 1000000 };

/* A session, at both servers. */
typedef struct {
    lk_simzk_connection *simulated;
    wire *real;
    lk_simzk_hello hello; /* to come back with; likewise: */
    wire_hello real_hello;
    int32_t xid;
} player;

typedef struct {
    lk_simzk *z;
    const play_stage *stage;
    int at; /* the simulated server */
    chooser chooser;
    render_side real, simulated;
    player players[SESSIONS];
    char root[48];
    uint64_t requests;
    bool verbose, failed;
} game;

/* ------------------------------------------------------------------ what is said ---- */

static void compare(game *g, const char *real, const char *simulated)
{
    const bool same = strcmp(real, simulated) == 0;
    if (g->verbose || (!same && !g->failed))
        (void)printf(same ? "  %s\n" : "  real:      %s\n", real);
    if (!same && (g->verbose || !g->failed))
        (void)printf("  simulated: %s\n", simulated);
    g->failed |= !same;
}

static void note_seen(int64_t *seen, const lk_simzk_answer *answer)
{
    if (answer != NULL && answer->zxid > *seen)
        *seen = answer->zxid;
}

static void learn(game *g, const lk_simzk_answer *answer)
{
    if (answer != NULL && answer->path != NULL && strstr(answer->path, "lock-0") != NULL)
        choose_learn(&g->chooser, answer->path);
}

/* The next answer of each. Returns the simulated one, to be freed; NULL: it has closed. */
static lk_simzk_answer *hear(game *g, player *p, char *real_text, char *text)
{
    lk_simzk_answer *const real = wire_receive(p->real), *const simulated = lk_simzk_receive(p->simulated);
    (void)render(&g->real, real, real_text);
    (void)render(&g->simulated, simulated, text);
    if (simulated == NULL && !lk_simzk_is_closed(p->simulated))
        (void)strcpy(text, "nothing");
    note_seen(&p->real_hello.seen, real);
    note_seen(&p->hello.seen, simulated);
    learn(g, simulated);
    if (real != NULL && real->kind == LK_SIMZK_WELCOME)
        p->real_hello.session = real->session;
    lk_simzk_answer_free(real);
    return simulated;
}

/* Up to the answer to that number; or until either has closed. */
static void hear_until(game *g, player *p, int32_t xid)
{
    char real[RENDER_TEXT], text[RENDER_TEXT];
    for (bool last = false; !last && !g->failed;) {
        lk_simzk_answer *const answer = hear(g, p, real, text);
        compare(g, real, text);
        last = answer == NULL || (answer->kind == LK_SIMZK_REPLY && answer->xid == xid);
        lk_simzk_answer_free(answer);
    }
}

/* ------------------------------------------------------------------ sending ---- */

static void print_texts(const char *what, lk_simzk_texts texts)
{
    for (size_t i = 0; i < texts.count; i++)
        (void)printf(" %s %s", what, texts.items[i]);
}

static void print_request(const lk_simzk_request *request)
{
    const lk_simzk_op *const ops = request->count > 0 ? request->ops : &request->op;
    (void)printf(" %d:", request->xid);
    for (size_t i = 0; i < request->count + (request->count == 0); i++)
        (void)printf(" [%d %s mode %d version %d watch %d]", (int)ops[i].kind,
                     ops[i].path != NULL ? ops[i].path : "", ops[i].mode, ops[i].version, ops[i].watch);
    print_texts("data", request->data_watches);
    print_texts("exists", request->exist_watches);
    print_texts("child", request->child_watches);
    (void)printf("\n");
}

static void send(game *g, player *p, const lk_simzk_request *request)
{
    if (g->verbose)
        print_request(request);
    lk_simzk_advance(g->z, lk_simzk_now(g->z) + MS);
    wire_send(p->real, request);
    lk_simzk_send(p->simulated, request);
    g->requests++;
}

static void send_kind(game *g, player *p, lk_simzk_kind kind, int32_t xid)
{
    send(g, p, &(lk_simzk_request){.xid = xid, .op = {.kind = kind}});
    lk_simzk_settle(g->z);
}

static void enter(game *g, player *p)
{
    char real[RENDER_TEXT], text[RENDER_TEXT];
    p->real = wire_connect(g->stage->server, &p->real_hello);
    p->simulated = lk_simzk_connect(g->z, g->at, &p->hello);
    lk_simzk_settle(g->z);
    lk_simzk_answer *const answer = hear(g, p, real, text);
    compare(g, real, text);
    if (answer != NULL && answer->kind == LK_SIMZK_WELCOME) {
        p->hello.session = answer->session;
        p->hello.password = answer->password;
        memcpy(p->real_hello.password, wire_password(p->real), sizeof p->real_hello.password);
    }
    lk_simzk_answer_free(answer);
}

static void leave(player *p)
{
    wire_close(p->real);
    lk_simzk_disconnect(p->simulated);
    p->real = NULL;
    p->simulated = NULL;
}

/* Another session. */
static void begin(game *g, player *p)
{
    const int32_t timeout_ms = choose_draw(&g->chooser, 2) == 0 ? 60000 : 500000;
    *p = (player){.hello = {.timeout_ms = timeout_ms}, .real_hello = {.timeout_ms = timeout_ms}};
    enter(g, p);
}

/* ------------------------------------------------------------------ steps ---- */

static void play_batch(game *g, player *p)
{
    lk_simzk_arena arena = {0};
    const uint64_t count = 1 + choose_draw(&g->chooser, BATCH_MAX);
    const bool at_once = choose_draw(&g->chooser, 2) == 0; /* the simulated disk is slow */
    for (uint64_t i = 0; i < count; i++) {
        const lk_simzk_request request = choose_request(&g->chooser, ++p->xid, &arena);
        send(g, p, &request);
        if (at_once)
            lk_simzk_settle(g->z);
    }
    lk_simzk_settle(g->z);
    hear_until(g, p, p->xid);
    lk_simzk_arena_free(&arena);
}

static void play_login(game *g, player *p)
{
    static const char *const users[] = {"shop:sesame", "other:secret"};
    const char *const user = users[choose_draw(&g->chooser, 2)];
    send(g, p,
         &(lk_simzk_request){
             .xid = LK_SIMZK_AUTH_XID,
             .op = {.kind = LK_SIMZK_AUTH, .path = "digest", .data = {user, (int32_t)strlen(user)}}});
    hear_until(g, p, LK_SIMZK_AUTH_XID);
}

/* What it watches is given again, by both counted from the same request. */
static void play_reconnection(game *g, player *p)
{
    lk_simzk_arena arena = {0};
    leave(p);
    enter(g, p);
    const int64_t seen = g->simulated.first + (int64_t)choose_draw(&g->chooser, 40);
    lk_simzk_request request = choose_watches(&g->chooser, seen, &arena);
    lk_simzk_advance(g->z, lk_simzk_now(g->z) + MS);
    if (g->verbose)
        print_request(&request);
    lk_simzk_send(p->simulated, &request);
    request.seen += g->real.first - g->simulated.first;
    wire_send(p->real, &request);
    lk_simzk_settle(g->z);
    hear_until(g, p, LK_SIMZK_WATCHES_XID);
    lk_simzk_arena_free(&arena);
}

/* Its session is not given to whoever can't prove that it is his own; and he cuts it off all the same. */
static void play_impostor(game *g, player *p)
{
    player impostor = {.hello = p->hello, .real_hello = p->real_hello};
    impostor.hello.password++;
    impostor.real_hello.password[0]++;
    enter(g, &impostor);
    hear_until(g, &impostor, 0);
    leave(&impostor);
    hear_until(g, p, 0);
    leave(p);
    enter(g, p);
}

/* ------------------------------------------------------------------ the end of a session ---- */

typedef struct {
    char *texts[EVENTS_MAX];
    size_t count;
} heap;

static void keep(heap *h, const char *text)
{
    if (h->count == EVENTS_MAX || (h->texts[h->count++] = strdup(text)) == NULL)
        abort();
}

static int by_text(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static void sort(heap *h)
{
    qsort(h->texts, h->count, sizeof h->texts[0], by_text);
}

static void compare_heaps(game *g, heap *real, heap *simulated)
{
    sort(real);
    sort(simulated);
    for (size_t i = 0; i < real->count; i++) {
        compare(g, real->texts[i], simulated->texts[i]);
        free(real->texts[i]);
        free(simulated->texts[i]);
    }
}

/* The same, where events may have come in any order: nodes that end with a session are in a hash table. */
static void hear_all(game *g, player *p, int32_t xid)
{
    char real[RENDER_TEXT], text[RENDER_TEXT];
    heap reals = {.count = 0}, simulateds = {.count = 0};
    for (bool last = false; !last && !g->failed;) {
        lk_simzk_answer *const answer = hear(g, p, real, text);
        keep(&reals, real);
        keep(&simulateds, text);
        last = answer == NULL || (answer->kind == LK_SIMZK_REPLY && answer->xid == xid);
        lk_simzk_answer_free(answer);
    }
    compare_heaps(g, &reals, &simulateds);
}

static void play_close(game *g, player *p)
{
    send_kind(g, p, LK_SIMZK_CLOSE, ++p->xid);
    hear_all(g, p, p->xid);
    hear_until(g, p, 0);
    leave(p);
    for (int i = 0; i < SESSIONS && !g->failed; i++) {
        player *const other = &g->players[i];
        if (other->real == NULL)
            continue;
        send_kind(g, other, LK_SIMZK_PING, LK_SIMZK_PING_XID);
        hear_all(g, other, LK_SIMZK_PING_XID);
    }
}

/* ------------------------------------------------------------------ the whole ---- */

static void play_step(game *g)
{
    player *const p = &g->players[choose_draw(&g->chooser, SESSIONS)];
    const uint64_t drawn = choose_draw(&g->chooser, 100);
    if (g->verbose)
        (void)printf("session %d\n", (int)(p - g->players));
    if (drawn < 80) {
        play_batch(g, p);
    } else if (drawn < 86) {
        play_login(g, p);
    } else if (drawn < 92) {
        play_reconnection(g, p);
    } else if (drawn < 94) {
        play_impostor(g, p);
    } else {
        play_close(g, p);
        if (!g->failed)
            begin(g, p);
    }
}

static void make(game *g, const char *path)
{
    static const lk_simzk_ace anyone = {31, "world", "anyone"};
    player *const p = &g->players[0];
    send(g, p,
         &(lk_simzk_request){
             .xid = ++p->xid,
             .op = {.kind = LK_SIMZK_CREATE2, .path = path, .data = {NULL, -1}, .acl = {&anyone, 1}}});
    lk_simzk_settle(g->z);
    hear_until(g, p, p->xid);
}

/* Some nodes to begin with, most of the time. */
static void make_nodes(game *g)
{
    static const char *const tails[] = {"/a", "/b", "/a/x"};
    make(g, g->root);
    for (size_t i = 0; i < 3 && choose_draw(&g->chooser, 8) > 0; i++) {
        char path[2 * sizeof g->root];
        (void)snprintf(path, sizeof path, "%s%s", g->root, tails[i]);
        make(g, path);
    }
}

static lk_simzk *new_ensemble(const play_stage *stage)
{
    char version[64];
    lk_server_version(stage->server, version, sizeof version);
    const lk_simzk_setup setup = {.servers = stage->servers,
                                  .is_3_9 = strncmp(version, "ZooKeeper 3.8", 13) != 0,
                                  .tick_ms = PLAY_TICK_MS,
                                  .max_timeout_ms = 120000,
                                  .container_check_ms = INT32_MAX};
    return lk_simzk_new(&setup);
}

/* Until there is a server of that kind. */
static int find_server(lk_simzk *z, const play_stage *stage)
{
    for (;;) {
        const int leader = lk_simzk_leader(z),
                  at = stage->leads || leader < 0 ? leader : (leader + 1) % stage->servers;
        if (at >= 0 && lk_simzk_serves(z, at))
            return at;
        lk_simzk_advance(z, lk_simzk_now(z) + MS);
        lk_simzk_settle(z);
    }
}

bool play(const play_stage *stage, uint64_t seed, bool verbose, uint64_t *requests)
{
    game *const g = calloc(1, sizeof *g);
    if (g == NULL)
        abort();
    *g = (game){.z = new_ensemble(stage), .stage = stage, .verbose = verbose};
    g->at = find_server(g->z, stage);
    (void)snprintf(g->root, sizeof g->root, "/s%llu", (unsigned long long)seed);
    g->chooser = (chooser){.random = seed, .root = g->root};
    for (int i = 0; i < SESSIONS; i++)
        begin(g, &g->players[i]);
    make_nodes(g);
    for (int i = 0; i < STEPS && !g->failed; i++)
        play_step(g);
    for (int i = 0; i < SESSIONS; i++)
        if (!g->failed)
            play_close(g, &g->players[i]);
        else
            leave(&g->players[i]);
    *requests += g->requests;
    const bool same = !g->failed;
    choose_free(&g->chooser);
    lk_simzk_free(g->z);
    free(g);
    return same;
}
