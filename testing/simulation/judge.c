/* judge.c: see judge.h. */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "state.h"
#include "world/seams.h"

static struct {
    lk_sim_hold *holds;
    uint64_t tokens[LK_SIM_KEYS_MAX];
    int64_t forgot_at; /* when the service lost its data; -1: never */
    unsigned grants;
} judge;

void lk_sim_judge_begin(void)
{
    memset(&judge, 0, sizeof judge);
    judge.forgot_at = -1;
}

static bool is_excused(const lk_sim_hold *hold)
{
    return hold->asked_at <= judge.forgot_at;
}

static bool holds(const lk_sim_hold *hold)
{
    const lk_claim *const claim = hold->handle->claim;
    return !hold->gives && LK_READ(claim->phase) == LK_GRANTED &&
           lk_sim_local(hold->process, lk_sim_now()) < LK_READ(claim->valid_until);
}

unsigned lk_sim_judge_grants(void)
{
    return judge.grants;
}

lk_sim_hold lk_sim_judge_asks(lk_sim_process *process, unsigned key)
{
    return (lk_sim_hold){
        .process = process, .key = key, .asked_at = lk_sim_now(), .asked_behind = judge.tokens[key]};
}

void lk_sim_judge_granted(lk_sim_hold *hold, locker_handle *handle)
{
    hold->handle = handle;
    hold->token = locker_handle_token(handle);
    lk_sim_tell("granted key %u token %llu to %d", hold->key, (unsigned long long)hold->token,
                hold->process->pid);
    judge.grants++;
    if (hold->token <= hold->asked_behind && !is_excused(hold))
        lk_sim_fail("key %u: token %llu was granted after token %llu", hold->key,
                    (unsigned long long)hold->token, (unsigned long long)hold->asked_behind);
    if (hold->token > judge.tokens[hold->key] && !is_excused(hold))
        judge.tokens[hold->key] = hold->token;
    hold->next = judge.holds;
    judge.holds = hold;
}

void lk_sim_judge_gives(lk_sim_hold *hold)
{
    const lk_claim *const claim = hold->handle->claim;
    hold->gave_behind = judge.tokens[hold->key];
    hold->valid_until =
        LK_READ(claim->phase) == LK_GRANTED ? lk_sim_true(hold->process, LK_READ(claim->valid_until)) : 0;
    hold->gives = true;
}

void lk_sim_judge_unlocked(const lk_sim_hold *hold, locker_status status)
{
    lk_sim_hold **at = &judge.holds;
    while (*at != hold)
        at = &(*at)->next;
    *at = hold->next;
    lk_sim_tell("unlock of key %u token %llu by %d: %s", hold->key, (unsigned long long)hold->token,
                hold->process->pid, locker_status_name(status));
    if (is_excused(hold))
        return;
    if (status == LOCKER_OK && hold->gave_behind > hold->token)
        lk_sim_fail("key %u: unlock of token %llu answered OK, and token %llu had been granted before",
                    hold->key, (unsigned long long)hold->token, (unsigned long long)hold->gave_behind);
    if (status == LOCKER_LOST && lk_sim_now() < hold->valid_until)
        lk_sim_fail("key %u: unlock of token %llu answered LOST, and nothing had taken it", hold->key,
                    (unsigned long long)hold->token);
    if (status != LOCKER_OK && status != LOCKER_LOST && status != LOCKER_UNKNOWN && status != LOCKER_CLOSED)
        lk_sim_fail("key %u: unlock answered %s", hold->key, locker_status_name(status));
}

/* Tokens begin anew, from the server's clock. */
void lk_sim_judge_forgets(void)
{
    judge.forgot_at = lk_sim_now();
    memset(judge.tokens, 0, sizeof judge.tokens);
}

void lk_sim_judge_forget(const lk_sim_process *process)
{
    for (lk_sim_hold **at = &judge.holds; *at != NULL;) {
        if ((*at)->process == process)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

void lk_sim_judge_look(void)
{
    const lk_sim_hold *holder[LK_SIM_KEYS_MAX] = {NULL};
    for (const lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next) {
        if (is_excused(hold) || !holds(hold))
            continue;
        const lk_sim_hold *const other = holder[hold->key];
        if (other != NULL)
            lk_sim_fail("key %u: process %d (token %llu) and process %d (token %llu) hold it", hold->key,
                        other->process->pid, (unsigned long long)other->token, hold->process->pid,
                        (unsigned long long)hold->token);
        holder[hold->key] = hold;
    }
}
