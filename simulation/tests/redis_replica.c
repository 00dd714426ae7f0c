/*
 * redis_replica.c: replicas of the simulated Redis held against those of a real one: after the same random
 * commands at both masters, and when all has arrived, the replicas answer with the same bytes, too.
 *
 *     simulation_redis_replica [--sequences N] [--seed N]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orders.h"
#include "redis_pair.h"
#include "redis_words.h"
#include "simulation/redis/replication.h"

enum { COMMANDS = 60 };

static const int64_t first_us = INT64_C(1700000000000000), apart_us = INT64_C(100000000000);

typedef struct {
    redis_pair pair;
    lk_server real; /* the replica of the real one */
    lk_sr_server *replica;
    lk_sr_link *link;
    drawing drawing;
    bool locks_only;
    words words;
    lk_sr_bytes bytes;
} sequence;

static void carry(sequence *s)
{
    for (lk_sr_text unit = lk_sr_link_unit(s->link); unit.len > 0; unit = lk_sr_link_unit(s->link)) {
        lk_sr_apply(s->replica, unit);
        lk_sr_link_taken(s->link);
    }
}

/* WAIT and what is done to a master's replicas is redis_parts.c's. */
static bool is_for_replicas(const words *w)
{
    return !lk_sr_is(lk_sr_view(&w->at[0]), "wait");
}

static bool play_command(sequence *s)
{
    s->bytes.len = 0;
    do {
        words_draw(&s->drawing, &s->words);
    } while (!is_for_replicas(&s->words));
    words_put(&s->words, &s->bytes);
    const int connection = (int)draw(&s->drawing, PAIR_CONNECTIONS);
    const bool good = s->pair.connections[connection].over ||
                      pair_send(&s->pair, connection, lk_sr_view(&s->bytes), (lk_sr_text){NULL, 0}, 0);
    carry(s);
    return good && pair_agrees(&s->pair);
}

static bool play_time(sequence *s)
{
    static const int64_t steps_us[] = {300, 5000, 21000, 1000000, 40000000};
    const int64_t us = steps_us[draw(&s->drawing, sizeof steps_us / sizeof steps_us[0])];
    const bool good = pair_advance(&s->pair, us) >= 0;
    lk_sr_advance(s->replica, (*s->pair.clock - s->pair.base_us) * 1000);
    s->drawing.clock_us = *s->pair.clock;
    carry(s);
    return good && pair_agrees(&s->pair);
}

/* Everything of every key; and that nothing is written there. */
static bool look(sequence *s, int fd, lk_sr_client *client)
{
    static const char *const keys[] = {"a", "b", "ab", "locker:fence:{1}"}, *const suffixes[] = {
                                                                                "", "queue", "fence", "info"};
    static const char *const questions[] = {"TYPE %s\r\n",
                                            "PTTL %s\r\n",
                                            "PEXPIRETIME %s\r\n",
                                            "GET %s\r\n",
                                            "ZRANGEBYSCORE %s -inf inf WITHSCORES\r\n",
                                            "LLEN %s\r\n",
                                            "HLEN %s\r\n",
                                            "HGET %s x\r\n",
                                            "HGET %s y\r\n",
                                            "SET %s 1\r\n"};
    bool good = true;
    for (size_t i = 0; i < 4 * 4 * 10 && good; i++) {
        char key[64], request[160];
        const char *suffix = suffixes[i / 4 % 4];
        (void)snprintf(key, sizeof key, suffix[0] != '\0' ? "{%s}:locker:%s" : "%s%s", keys[i % 4], suffix);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(request, sizeof request, questions[i / 16], key);
#pragma GCC diagnostic pop
        good = pair_answers_agree(&s->pair, fd, client, lk_sr_word(request));
        if (!good)
            (void)printf("at the replica: %s", request);
    }
    return good;
}

static bool compare(sequence *s)
{
    const int fd = pair_connect(&s->real);
    lk_sr_client *client = lk_sr_connect(s->replica, "socket", NULL);
    const bool good = pair_is_replicated(&s->pair) && look(s, fd, client);
    close(fd);
    return good;
}

static bool play(sequence *s, uint64_t seed)
{
    static const theme themes[] = {THEME_LOCKS, THEME_KEYS, THEME_SCRIPTS};
    s->drawing = (drawing){.random = seed, .clock_us = first_us + (int64_t)seed * apart_us};
    const theme drawn = themes[draw(&s->drawing, 3)];
    s->drawing.theme = s->locks_only ? THEME_LOCKS : drawn;
    s->drawing.locks_only = s->locks_only;
    if (!pair_begin(&s->pair, seed, s->drawing.clock_us))
        return false;
    const lk_sr_setup setup = {.seed = seed + 1, .clock_ns = s->drawing.clock_us * 1000};
    s->replica = lk_sr_new(&setup);
    lk_sr_follow(s->replica, "127.0.0.1", s->pair.real.port);
    s->link = lk_sr_attach(s->pair.simulated, s->replica);
    bool good = true;
    for (int i = 0; i < COMMANDS && good; i++)
        good = draw(&s->drawing, 6) == 0 ? play_time(s) : play_command(s);
    good = good && compare(s);
    lk_sr_detach(s->link);
    lk_sr_free(s->replica);
    pair_end(&s->pair);
    return good;
}

static int run(sequence *s, const char *program, uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (play(s, seed))
            continue;
        (void)printf("sequence %" PRIu64
                     ": %s\n  simulated: %.*s\n  real: %.*s\nrun it again: %s --seed %" PRIu64 "\n",
                     seed, s->pair.wrong, LK_SR_SHOWN(s->pair.expected), LK_SR_SHOWN(s->pair.got), program,
                     seed);
        return 1;
    }
    (void)printf("%" PRIu64 " sequences, 0 differences\n", count);
    return 0;
}

int main(int argc, char **argv)
{
    static sequence s;
    orders o = {.usage = "[--sequences N] [--seed N]", .first = 1, .count = 200};
    if (!read_orders(&o, argc, argv))
        return usage(&o, argv[0]);
    int result = 1;
    if (!pair_start(&s.pair) || !pair_start_another(&s.pair, &s.real) ||
        !lk_server_follow(&s.real, &s.pair.real) ||
        !pair_is_replicated(&s.pair)) { /* the master is done with it too, and no time must pass before */
        (void)printf("%s%s\n", s.pair.wrong, s.real.error);
    } else {
        s.locks_only = pair_is_of_another_release(&s.pair);
        result = run(&s, argv[0], o.first, o.count);
    }
    words_clear(&s.words);
    lk_sr_bytes_free(&s.bytes);
    lk_server_remove(&s.real);
    pair_stop(&s.pair);
    return result;
}
