/*
 * redis_random.c: the simulated Redis held against a real one: the same random commands at both, on several
 * connections, have to be answered with the same bytes.
 *
 *     simulation_redis [--sequences N] [--first N] [--seed N] [--verbose] [--plant NAME]
 *
 * Runs N sequences with the seeds from 1 (--first) on, or the one of --seed. The real server's clock is ours
 * (clock_shim.c), so that times are equal, too. Left out are INFO, ROLE and DBSIZE, which are looked at once
 * at the beginning: they tell of what is not the same. --plant changes on purpose what the simulated server
 * is sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orders.h"
#include "redis_pair.h"
#include "redis_words.h"
#include "servers/wait.h"

enum { FLIGHTS = 40, FLIGHT_MAX = 4, RAW_ONE_IN = 80, LISTENER = PAIR_CONNECTIONS - 1 };

static const int64_t first_us = INT64_C(1700000000000000), apart_us = INT64_C(100000000000);

/* ------------------------------------------------------------------ planted differences ---- */

static void leave_out(words *w, const char *word)
{
    for (size_t i = 1; i < w->count; i++) {
        if (!lk_sr_is(lk_sr_view(&w->at[i]), word))
            continue;
        lk_sr_bytes_free(&w->at[i]);
        w->count--;
        memmove(&w->at[i], &w->at[i + 1], (w->count - i) * sizeof w->at[0]);
        w->at[w->count] = (lk_sr_bytes){NULL, 0, 0};
    }
}

/* SET without its NX: whoever comes last has the lock. */
static void plant_nx(words *w)
{
    if (lk_sr_is(lk_sr_view(&w->at[0]), "set"))
        leave_out(w, "nx");
}

/* A lease of one ms more. */
static void plant_ms(words *w)
{
    for (size_t i = 1; i + 1 < w->count; i++) {
        if (lk_sr_is(lk_sr_view(&w->at[i]), "px") && w->at[i + 1].len > 0 && w->at[i + 1].data[0] == '3')
            w->at[i + 1].data[w->at[i + 1].len - 1] = '1';
    }
}

/* Messages to nobody. */
static void plant_deaf(words *w)
{
    if (lk_sr_is(lk_sr_view(&w->at[0]), "publish") && w->count > 1)
        lk_sr_bytes_set(&w->at[1], lk_sr_word("nowhere"));
}

/* Who stands in the queue would have the lock for another time. */
static void plant_queue(words *w)
{
    for (size_t i = 1; i < w->count; i++) {
        char *at = w->at[i].len > 0 ? memmem(w->at[i].data, w->at[i].len, " 30000 ", 7) : NULL;
        if (at != NULL)
            at[1] = '2';
    }
}

static const struct {
    const char *name;
    void (*change)(words *w);
} plants[] = {{"nx", plant_nx}, {"ms", plant_ms}, {"deaf", plant_deaf}, {"queue", plant_queue}};

/* ------------------------------------------------------------------ a sequence ---- */

typedef struct {
    redis_pair pair;
    drawing drawing;
    bool verbose, listens, locks_only;
    void (*plant)(words *w);
    words words;
    lk_sr_bytes bytes, planted;
    uint64_t commands, told; /* of all sequences: what was sent, and messages of the driver's scripts */
} sequence;

static void show(const sequence *s, int connection)
{
    lk_sr_bytes line = {NULL, 0, 0};
    words_print(&s->words, &line);
    (void)printf("%" PRId64 " %d: %.*s\n", *s->pair.clock, connection, (int)line.len, line.data);
    lk_sr_bytes_free(&line);
}

/* What is no request, or an odd one. */
static bool play_raw(sequence *s, int connection)
{
    const char *raw = words_raw(&s->drawing);
    if (s->verbose)
        (void)printf("%d: raw bytes: %s\n", connection, raw);
    return pair_send(&s->pair, connection, lk_sr_word(raw), (lk_sr_text){NULL, 0}, 0);
}

/* Some commands on one connection, at once. */
static bool play_flight(sequence *s)
{
    const bool all = !s->listens || draw(&s->drawing, 20) == 0;
    const int connection = (int)draw(&s->drawing, all ? PAIR_CONNECTIONS : LISTENER);
    if (s->pair.connections[connection].over)
        return true;
    s->bytes.len = s->planted.len = 0;
    if (draw(&s->drawing, RAW_ONE_IN) == 0)
        return play_raw(s, connection);
    const uint64_t count = 1 + draw(&s->drawing, FLIGHT_MAX) / 2;
    for (uint64_t i = 0; i < count; i++, s->commands++) {
        words_draw(&s->drawing, &s->words);
        words_put(&s->words, &s->bytes);
        if (s->verbose)
            show(s, connection);
        if (s->plant == NULL)
            continue;
        s->plant(&s->words);
        words_put(&s->words, &s->planted);
    }
    /* Of several commands the real server sees the first and the last at once, before others go on. */
    const size_t piece = count == 1 && draw(&s->drawing, 4) == 0 ? 1 + draw(&s->drawing, 50) : 0;
    return pair_send(&s->pair, connection, lk_sr_view(&s->bytes), lk_sr_view(&s->planted), piece);
}

static bool play_time(sequence *s)
{
    static const int64_t steps_us[] = {1, 300, 1000, 5000, 8000, 21000, 1000000, 40000000};
    int64_t left = steps_us[draw(&s->drawing, sizeof steps_us / sizeof steps_us[0])];
    if (s->verbose)
        (void)printf("%" PRId64 " us pass\n", left);
    bool good = true;
    while (good && left > 0) {
        const int64_t passed = pair_advance(&s->pair, left);
        left -= passed;
        good = passed >= 0 && pair_agrees(&s->pair);
    }
    s->drawing.clock_us = *s->pair.clock;
    return good;
}

/* As the driver begins: its scripts are there, and lockers listen, so that locks are handed on. */
static bool play_beginning(sequence *s)
{
    static const struct {
        int connection;
        const char *line;
    } lines[] = {{0, "SCRIPT LOAD %A"},         {0, "SCRIPT LOAD %R"},     {1, "SCRIPT LOAD %E"},
                 {1, "SCRIPT LOAD %W"},         {1, "SCRIPT LOAD %S"},     {1, "SCRIPT LOAD %B"},
                 {LISTENER, "SUBSCRIBE %c %c"}, {LISTENER, "SUBSCRIBE %c"}};
    bool good = true;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && good; i++) {
        s->bytes.len = 0;
        words_make(&s->drawing, lines[i].line, &s->words);
        words_put(&s->words, &s->bytes);
        if (s->verbose)
            show(s, lines[i].connection);
        good = pair_send(&s->pair, lines[i].connection, lk_sr_view(&s->bytes), (lk_sr_text){NULL, 0}, 0) &&
               pair_agrees(&s->pair);
    }
    return good;
}

static bool play(sequence *s, uint64_t seed)
{
    s->drawing = (drawing){.random = seed, .clock_us = first_us + (int64_t)seed * apart_us};
    const uint64_t drawn = draw(&s->drawing, THEMES + 2); /* locks most of all */
    s->drawing.theme = drawn < THEMES && !s->locks_only ? (theme)drawn : THEME_LOCKS;
    s->drawing.locks_only = s->locks_only;
    bool good = pair_begin(&s->pair, seed, s->drawing.clock_us);
    if (good)
        s->drawing.first_client = lk_sr_client_id(s->pair.connections[0].client);
    s->listens = good && s->drawing.theme == THEME_LOCKS && draw(&s->drawing, 5) > 0;
    if (s->listens)
        good = play_beginning(s);
    for (int i = 0; i < FLIGHTS && good; i++) {
        good = draw(&s->drawing, 5) == 0 ? play_time(s) : play_flight(s);
        good = good && pair_agrees(&s->pair);
        s->told += s->pair.told;
    }
    pair_end(&s->pair);
    return good;
}

/* What random sequences leave out: what a server says of itself, as long as that is the same. */
static bool play_introduction(sequence *s)
{
    static const char *const lines[] = {"ROLE",    "DBSIZE", "HELLO 2",
                                        "SET a 1", "DBSIZE", "REPLICAOF 127.0.0.1 1"};
    bool good = pair_begin(&s->pair, 0, first_us) && pair_info_agrees(&s->pair);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && good; i++) {
        s->bytes.len = 0;
        lk_sr_print(&s->bytes, "%s\r\n", lines[i]);
        good =
            pair_send(&s->pair, 0, lk_sr_view(&s->bytes), (lk_sr_text){NULL, 0}, 0) && pair_agrees(&s->pair);
    }
    good = good && pair_info_agrees(&s->pair);
    pair_end(&s->pair);
    return good;
}

/* ------------------------------------------------------------------ the program ---- */

static void print_answer(const char *whose, const lk_sr_bytes *answer)
{
    (void)printf("  %s ", whose);
    for (size_t i = 0; i < answer->len; i++) {
        const unsigned char c = (unsigned char)answer->data[i];
        if (c >= ' ' && c < 0x7F)
            (void)putchar(c);
        else
            (void)printf(c == '\r' ? "\\r" : c == '\n' ? "\\n" : "\\x%02x", c);
    }
    (void)putchar('\n');
}

static int tell(const sequence *s, const char *program, uint64_t seed, const char *planted)
{
    (void)printf("sequence %" PRIu64 ": %s\n", seed, s->pair.wrong);
    print_answer("simulated:", &s->pair.expected);
    print_answer("real:     ", &s->pair.got);
    (void)printf("run it again: %s --seed %" PRIu64 " --verbose%s%s\n", program, seed,
                 planted != NULL ? " --plant " : "", planted != NULL ? planted : "");
    return 1;
}

static int run(sequence *s, const char *program, uint64_t first, uint64_t count, const char *planted)
{
    const int64_t began = lk_now_ns();
    if (!s->locks_only && !play_introduction(s))
        return tell(s, program, 0, planted);
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!play(s, seed))
            return tell(s, program, seed, planted);
    }
    const double seconds = (double)(lk_now_ns() - began) / 1e9;
    (void)printf("%" PRIu64 " sequences, %" PRIu64 " commands, %" PRIu64
                 " locks handed on or broken in %.1f s, 0 differences\n",
                 count, s->commands, s->told, seconds);
    if (s->told >= count / 8)
        return 0;
    (void)printf("too few locks are handed on to show that the two agree\n");
    return 1;
}

static bool read_plant(sequence *s, const char *name)
{
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        if (strcmp(plants[i].name, name) == 0)
            s->plant = plants[i].change;
    }
    return s->plant != NULL;
}

int main(int argc, char **argv)
{
    static sequence s;
    orders o = {.usage = "[--sequences N] [--first N] [--seed N] [--verbose] [--plant NAME]",
                .first = 1,
                .count = 1000};
    if (!read_orders(&o, argc, argv) || (o.planted != NULL && !read_plant(&s, o.planted)))
        return usage(&o, argv[0]);
    s.verbose = o.verbose;
    if (!pair_start(&s.pair)) {
        (void)printf("%s\n", s.pair.wrong);
        pair_stop(&s.pair);
        return 1;
    }
    s.locks_only = pair_is_of_another_release(&s.pair);
    const int result = run(&s, argv[0], o.first, o.count, o.planted);
    words_clear(&s.words);
    lk_sr_bytes_free(&s.bytes);
    lk_sr_bytes_free(&s.planted);
    pair_stop(&s.pair);
    return result;
}
