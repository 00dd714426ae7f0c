/* choose.c: see choose.h. */
#include "choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SplitMix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t choose_draw(chooser *c, uint64_t below)
{
    uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* ------------------------------------------------------------------ paths ---- */

static const char *join(lk_simzk_arena *arena, const char *one, const char *other)
{
    const size_t size = strlen(one) + strlen(other) + 1;
    char *const text = lk_simzk_arena_alloc(arena, size);
    (void)snprintf(text, size, "%s%s", one, other);
    return text;
}

static const char *choose_path(chooser *c, lk_simzk_arena *arena)
{
    static const char *const tails[] = {"",     "/a",   "/a",   "/b",     "/b",     "/c",
                                        "/a/x", "/a/y", "/b/x", "/a/x/z", "/nobody"};
    const size_t known = c->count < CHOOSE_PATHS_MAX ? c->count : CHOOSE_PATHS_MAX;
    if (known > 0 && choose_draw(c, 3) == 0)
        return lk_simzk_arena_text(arena, c->paths[choose_draw(c, known)]);
    return join(arena, c->root, tails[choose_draw(c, sizeof tails / sizeof *tails)]);
}

static const char *choose_bad_path(chooser *c, lk_simzk_arena *arena)
{
    static const char *const tails[] = {
        "/",      "//a",       "/./a",          "/..",           "/.hidden", "/a\x01",
        "/a\x7f", "/\xc3\xa9", "/\xef\xa3\xbf", "/\xef\xbf\xbd", "/a/",      "/\xf0\x9f\x94\x92"};
    if (choose_draw(c, 8) == 0)
        return "none";
    return join(arena, c->root, tails[choose_draw(c, sizeof tails / sizeof *tails)]);
}

void choose_learn(chooser *c, const char *path)
{
    char **const place = &c->paths[c->count++ % CHOOSE_PATHS_MAX];
    free(*place);
    *place = strdup(path);
    if (*place == NULL)
        abort();
}

void choose_free(chooser *c)
{
    for (size_t i = 0; i < CHOOSE_PATHS_MAX; i++)
        free(c->paths[i]);
}

/* ------------------------------------------------------------------ one operation ---- */

static const lk_simzk_ace open_ace = {31, "world", "anyone"}, own_ace = {31, "auth", ""},
                          read_ace = {LK_SIMZK_READ, "world", "anyone"}, bad_ace = {31, "nothing", "nobody"},
                          both_aces[] = {{31, "auth", ""},
                                         {LK_SIMZK_READ | LK_SIMZK_CREATES, "world", "anyone"}};

static lk_simzk_acl choose_acl(chooser *c)
{
    switch (choose_draw(c, 24)) {
    case 0:
        return (lk_simzk_acl){&own_ace, 1};
    case 1:
        return (lk_simzk_acl){both_aces, 2};
    case 2:
        return (lk_simzk_acl){&read_ace, 1};
    case 3:
        return (lk_simzk_acl){&bad_ace, 1};
    case 4:
        return (lk_simzk_acl){NULL, 0};
    default:
        return (lk_simzk_acl){&open_ace, 1};
    }
}

static lk_simzk_data choose_data(chooser *c)
{
    static const lk_simzk_data all[] = {{NULL, -1}, {"", 0}, {"one", 3}, {"another", 7}};
    return all[choose_draw(c, 4)];
}

static int32_t choose_version(chooser *c)
{
    return choose_draw(c, 2) == 0 ? -1 : (int32_t)choose_draw(c, 3);
}

static lk_simzk_op choose_create(chooser *c, lk_simzk_arena *arena)
{
    static const lk_simzk_kind kinds[] = {LK_SIMZK_CREATE, LK_SIMZK_CREATE2, LK_SIMZK_CREATE2,
                                          LK_SIMZK_CREATE_CONTAINER};
    lk_simzk_op op = {.kind = kinds[choose_draw(c, 4)], .data = choose_data(c), .acl = choose_acl(c)};
    op.path = choose_path(c, arena);
    op.mode = op.kind == LK_SIMZK_CREATE_CONTAINER ? LK_SIMZK_CONTAINER : (int32_t)choose_draw(c, 4);
    if ((op.mode & LK_SIMZK_SEQUENTIAL) != 0)
        op.path = join(arena, op.path, "/lock-");
    return op;
}

/* One that a multi may have, too. */
static lk_simzk_op choose_write(chooser *c, lk_simzk_arena *arena, bool in_multi)
{
    const uint64_t drawn = choose_draw(c, in_multi ? 10 : 8);
    if (drawn < 4)
        return choose_create(c, arena);
    return (lk_simzk_op){.kind = drawn < 6   ? LK_SIMZK_DELETE
                                 : drawn < 8 ? LK_SIMZK_SET
                                             : LK_SIMZK_CHECK,
                         .path = choose_path(c, arena),
                         .data = choose_data(c),
                         .version = choose_version(c)};
}

static lk_simzk_op choose_read(chooser *c, lk_simzk_arena *arena)
{
    static const lk_simzk_kind kinds[] = {
        LK_SIMZK_EXISTS, LK_SIMZK_EXISTS, LK_SIMZK_GET,  LK_SIMZK_GET,  LK_SIMZK_GET,
        LK_SIMZK_LIST,   LK_SIMZK_LIST,   LK_SIMZK_LIST, LK_SIMZK_SYNC, LK_SIMZK_REMOVE_WATCHES};
    return (lk_simzk_op){.kind = kinds[choose_draw(c, sizeof kinds / sizeof *kinds)],
                         .path = choose_path(c, arena),
                         .version = 1 + (int32_t)choose_draw(c, 3),
                         .watch = choose_draw(c, 2) == 0};
}

/* ------------------------------------------------------------------ requests ---- */

static void choose_multi(chooser *c, lk_simzk_request *request, lk_simzk_arena *arena)
{
    lk_simzk_op *const ops = lk_simzk_arena_alloc(arena, 4 * sizeof *ops);
    request->op = (lk_simzk_op){.kind = LK_SIMZK_MULTI};
    request->count = choose_draw(c, 5);
    request->ops = ops;
    for (size_t i = 0; i < request->count; i++)
        ops[i] = choose_write(c, arena, true);
}

lk_simzk_request choose_request(chooser *c, int32_t xid, lk_simzk_arena *arena)
{
    lk_simzk_request request = {.xid = xid};
    const uint64_t drawn = choose_draw(c, 100);
    if (drawn < 15)
        choose_multi(c, &request, arena);
    else if (drawn < 55)
        request.op = choose_write(c, arena, false);
    else
        request.op = choose_read(c, arena);
    if (choose_draw(c, 40) == 0 && request.op.path != NULL &&
        request.op.kind != LK_SIMZK_SYNC) /* which says it back */
        request.op.path = choose_bad_path(c, arena);
    else if (choose_draw(c, 100) == 0)
        request.op = (lk_simzk_op){.kind = LK_SIMZK_DELETE, .path = "/", .version = -1};
    return request;
}

static lk_simzk_texts choose_paths(chooser *c, lk_simzk_arena *arena)
{
    const size_t count = choose_draw(c, 4);
    const char **const items = lk_simzk_arena_alloc(arena, 4 * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = choose_path(c, arena);
    return (lk_simzk_texts){items, count};
}

lk_simzk_request choose_watches(chooser *c, int64_t seen, lk_simzk_arena *arena)
{
    return (lk_simzk_request){.xid = LK_SIMZK_WATCHES_XID,
                              .op = {.kind = LK_SIMZK_SET_WATCHES},
                              .seen = seen,
                              .data_watches = choose_paths(c, arena),
                              .exist_watches = choose_paths(c, arena),
                              .child_watches = choose_paths(c, arena)};
}
