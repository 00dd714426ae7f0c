/* storm_detector.c: who was where and when, in memory that processes share, and whether that may be;
 * storm.h. */
#include "storm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int64_t lk_storm_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

const char *lk_storm_key(unsigned key)
{
    static const char *const names[LK_STORM_KEYS] = {"storm/0", "storm/1", "storm/2", "storm/3"};
    return names[key % LK_STORM_KEYS];
}

lk_detector *lk_detector_open(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *detector = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(lk_detector)) == 0)
        detector = mmap(NULL, sizeof(lk_detector), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (detector == MAP_FAILED) {
        fprintf(stderr, "storm: can't map %s: %s\n", path, strerror(errno));
        exit(EXIT_FAILURE);
    }
    close(fd);
    return detector;
}

void lk_detector_close(lk_detector *detector)
{
    munmap(detector, sizeof *detector);
}

static unsigned at_most(unsigned count, unsigned limit)
{
    return count < limit ? count : limit;
}

void lk_detector_clear(lk_detector *detector)
{
    memset(detector->stay, 0, at_most(detector->stays, LK_STAYS) * sizeof detector->stay[0]);
    memset(detector->blow, 0, at_most(detector->blows, LK_BLOWS) * sizeof detector->blow[0]);
    detector->stays = detector->blows = 0;
}

/* ------------------------------------------------------------------ what happens ---- */

void lk_detector_complain(lk_detector *detector, const char *format, ...)
{
    if (atomic_exchange(&detector->has_complaint, true))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(detector->complaint, sizeof detector->complaint, format, args);
    va_end(args);
}

/* What is asked after the time was read was so at that time: what is lost never comes back. Then there is nothing to read of
 * when the lease was to end, so that is what was said last. */
bool lk_stay_look(lk_stay *stay, const locker_handle *held)
{
    const int64_t now = lk_storm_now(), left = locker_handle_remaining_ms(held);
    const bool certain = locker_handle_state(held) <= LOCKER_STATE_SUSPECT;
    if (certain) {
        stay->seen = now;
        stay->until = left < 0 ? -1 : now + left * 1000000;
    }
    return certain;
}

lk_stay *lk_detector_enter(lk_detector *detector, unsigned key, unsigned crew, int64_t asked,
                           locker_handle *held, locker_mode mode)
{
    const int64_t from = lk_storm_now();
    const unsigned i = atomic_fetch_add(&detector->stays, 1);
    lk_stay *stay = &detector->stay[at_most(i, LK_STAYS - 1)];
    if (i >= LK_STAYS)
        return NULL;
    stay->key = key;
    stay->crew = crew;
    stay->asked = asked;
    stay->mode = mode;
    stay->slot = locker_handle_slot(held);
    stay->token = locker_handle_token(held);
    if (lk_stay_look(stay, held))
        stay->seen = from;
    stay->from = from;
    return stay;
}

void lk_stay_give(lk_stay *stay, locker_handle *held)
{
    (void)lk_stay_look(stay, held);
    stay->gives = lk_storm_now();
    stay->answer = locker_unlock(held, NULL);
    stay->gave = lk_storm_now();
}

locker_status lk_detector_break(lk_detector *detector, unsigned key, locker *l, locker_error *err)
{
    const unsigned i = atomic_fetch_add(&detector->blows, 1);
    lk_blow *blow = &detector->blow[at_most(i, LK_BLOWS - 1)];
    if (i >= LK_BLOWS)
        return LOCKER_OK;
    blow->key = key;
    blow->asked = lk_storm_now();
    const locker_status status = locker_break(l, lk_storm_key(key), NULL, NULL, err);
    blow->done = lk_storm_now();
    return status;
}

/* ------------------------------------------------------------------ the judge ---- */

/* The stays of a round in the order in which they began, without those that never did. */
struct trial {
    lk_detector *detector;
    lk_stay **stay;
    unsigned count;
    char *text;
    size_t size;
};

static int by_key_and_time(const void *left, const void *right)
{
    const lk_stay *a = *(lk_stay *const *)left, *b = *(lk_stay *const *)right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

static int by_key_and_token(const void *left, const void *right)
{
    const lk_stay *a = *(lk_stay *const *)left, *b = *(lk_stay *const *)right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

static bool finds(const struct trial *trial, const lk_stay *a, const lk_stay *b, const char *what)
{
    snprintf(trial->text, trial->size,
             "%s: %s: locker %u with token %" PRIu64 " (asked %.3f, got %.3f, certain until %.3f, unlock "
             "%s) and locker %u with token %" PRIu64 " (asked %.3f, got %.3f ms)",
             lk_storm_key(a->key), what, a->crew, a->token, (double)(a->asked - b->from) / 1e6,
             (double)(a->from - b->from) / 1e6, (double)(a->seen - b->from) / 1e6,
             a->gave != 0 ? locker_status_name(a->answer) : "unanswered", b->crew, b->token,
             (double)(b->asked - b->from) / 1e6, 0.0);
    return false;
}

/* A break takes the lock from who holds it at the service, who is told as soon as that can be; until then he
 * is certain wrongly. So whoever may have had it then shuts nobody out from then on. */
static void shorten(const struct trial *trial, lk_stay *stay)
{
    stay->end = stay->seen;
    for (unsigned i = 0; i < at_most(trial->detector->blows, LK_BLOWS); i++) {
        const lk_blow *blow = &trial->detector->blow[i];

        if (blow->key == stay->key && stay->end > blow->asked &&
            (blow->done == 0 || stay->asked < blow->done))
            stay->end = blow->asked;
    }
}

static bool was_certain(const lk_stay *stay)
{
    return stay->seen != 0 && stay->end >= stay->from;
}

static bool is_plain(const lk_stay *stay)
{
    return stay->mode == LOCKER_EXCLUSIVE && stay->slot < 0;
}

/* Whether both may be certain at once. */
static bool may_be_beside(const lk_stay *a, const lk_stay *b)
{
    return (a->mode == LOCKER_SHARED && b->mode == LOCKER_SHARED) ||
           (a->slot >= 0 && b->slot >= 0 && a->slot != b->slot);
}

/* Nobody comes while another is certain beside whom he may not be. */
static bool nobody_is_beside_another(const struct trial *trial)
{
    for (unsigned i = 0; i < trial->count; i++) {
        const lk_stay *stay = trial->stay[i];

        if (stay->slot >= LK_STORM_PERMITS)
            return finds(trial, stay, stay, "a slot beyond the last permit");
        for (unsigned j = i; was_certain(stay) && j-- > 0 && trial->stay[j]->key == stay->key;) {
            const lk_stay *before = trial->stay[j];

            if (was_certain(before) && before->end > stay->from && !may_be_beside(before, stay))
                return finds(trial, before, stay, "two holders");
        }
    }
    return true;
}

/* Whose call began when another was there already has the greater token, whatever its slot. */
static bool tokens_of_permits_grow(const struct trial *trial)
{
    for (unsigned i = 0; i < trial->count; i++)
        for (unsigned j = i; j-- > 0 && trial->stay[j]->key == trial->stay[i]->key;) {
            const lk_stay *before = trial->stay[j], *stay = trial->stay[i];

            if (before->slot >= 0 && stay->slot >= 0 && before->from <= stay->asked && stay->token != 0 &&
                stay->token <= before->token)
                return finds(trial, before, stay, "a token that did not grow");
        }
    return true;
}

/* Each has a greater token than who was there before, beside whom it may not be: who shares a key, or has another
 * permit, need not come back from his call in the order in which they were granted. */
static bool tokens_grow(const struct trial *trial)
{
    const lk_stay *plain = NULL, *shared = NULL, *last_of[LK_STORM_PERMITS] = {NULL};
    for (unsigned i = 0; i < trial->count; i++) {
        const lk_stay *stay = trial->stay[i], *before;

        if (i > 0 && trial->stay[i - 1]->key != stay->key) {
            plain = shared = NULL;
            memset(last_of, 0, sizeof last_of);
        }
        if (!was_certain(stay) || stay->token == 0)
            continue;
        before = plain;
        if (stay->slot >= 0)
            before = last_of[stay->slot];
        else if (is_plain(stay) && shared != NULL && (before == NULL || shared->token > before->token))
            before = shared;
        if (before != NULL && stay->token <= before->token)
            return finds(trial, before, stay, "a token that did not grow");
        if (stay->slot >= 0)
            last_of[stay->slot] = stay;
        else if (is_plain(stay))
            plain = stay;
        else if (shared == NULL || stay->token > shared->token)
            shared = stay;
    }
    return true;
}

/* Readers of one locker may ride on one grant. */
static bool ride(const lk_stay *a, const lk_stay *b)
{
    return a->mode == LOCKER_SHARED && b->mode == LOCKER_SHARED && a->crew == b->crew;
}

static bool no_token_twice(const struct trial *trial)
{
    qsort(trial->stay, trial->count, sizeof *trial->stay, by_key_and_token);
    for (unsigned i = 1; i < trial->count; i++) {
        const lk_stay *a = trial->stay[i - 1], *b = trial->stay[i];

        if (a->key == b->key && a->token == b->token && a->token != 0 && !ride(a, b))
            return finds(trial, a, b, "the same token was granted twice");
    }
    qsort(trial->stay, trial->count, sizeof *trial->stay, by_key_and_time);
    return true;
}

static bool was_broken(const struct trial *trial, const lk_stay *stay)
{
    for (unsigned i = 0; i < at_most(trial->detector->blows, LK_BLOWS); i++)
        if (trial->detector->blow[i].key == stay->key && trial->detector->blow[i].asked < stay->gave)
            return true;
    return false;
}

/* LOST is true only if the lease had ended, or somebody broke it. */
static bool was_lost_for_a_reason(const struct trial *trial, const lk_stay *stay)
{
    if (stay->gave == 0 || stay->answer != LOCKER_LOST || was_broken(trial, stay))
        return true;
    return stay->until >= 0 && stay->gave >= stay->until;
}

/* OK is untrue if another was certain between the grant and the unlock. */
static bool answers_are_true(const struct trial *trial)
{
    for (unsigned i = 0; i < trial->count; i++) {
        const lk_stay *stay = trial->stay[i];

        if (!was_lost_for_a_reason(trial, stay))
            return finds(trial, stay, stay,
                         "unlock answered lost, but the lock was neither broken nor expired");
        for (unsigned j = i + 1; j < trial->count && trial->stay[j]->key == stay->key; j++) {
            if (trial->stay[j]->from >= stay->gives)
                break;
            if (stay->answer == LOCKER_OK && stay->gave != 0 && was_certain(trial->stay[j]) &&
                !may_be_beside(stay, trial->stay[j]))
                return finds(trial, stay, trial->stay[j],
                             "unlock answered ok, but another holder had the lock meanwhile");
        }
    }
    return true;
}

static void call(struct trial *trial, lk_detector *detector)
{
    const unsigned count = at_most(detector->stays, LK_STAYS);
    for (unsigned i = 0; i < count; i++)
        if (detector->stay[i].from != 0)
            trial->stay[trial->count++] = &detector->stay[i];
    for (unsigned i = 0; i < trial->count; i++)
        shorten(trial, trial->stay[i]);
    qsort(trial->stay, trial->count, sizeof *trial->stay, by_key_and_time);
}

const char *lk_detector_judge(lk_detector *detector, char *text, size_t size)
{
    struct trial trial = {.detector = detector, .size = size};
    trial.text = text;
    if (detector->has_complaint)
        return detector->complaint;
    trial.stay = calloc(LK_STAYS, sizeof *trial.stay);
    if (trial.stay == NULL)
        return "out of memory";
    call(&trial, detector);
    const bool good = nobody_is_beside_another(&trial) && tokens_grow(&trial) &&
                      tokens_of_permits_grow(&trial) && no_token_twice(&trial) && answers_are_true(&trial);
    free(trial.stay);
    return good ? NULL : text;
}
