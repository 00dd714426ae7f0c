/* election.c: servers that look for a leader agree on the one with the newest history (FastLeaderElection). */
#include "network.h"

enum { FINAL_MS = 200, AGAIN_MS = 200, AGAIN_MAX_MS = 60000 };

static void send(lk_simzk_server *s, int to)
{
    lk_simzk_vote vote = s->election.vote;
    vote.role = s->role;
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_VOTES, s->id, to},
                  &(lk_simzk_message){.kind = LK_SIMZK_VOTE, .vote = vote});
}

static void send_all(lk_simzk_server *s)
{
    for (int i = 0; i < s->z->setup.servers; i++)
        if (i != s->id)
            send(s, i);
}

static lk_simzk_vote own(const lk_simzk_server *s)
{
    return (lk_simzk_vote){
        .leader = s->id, .zxid = s->tree.zxid, .epoch = s->current_epoch, .round = s->election.round};
}

static bool is_better(const lk_simzk_vote *vote, const lk_simzk_vote *than)
{
    if (vote->epoch != than->epoch)
        return vote->epoch > than->epoch;
    return vote->zxid != than->zxid ? vote->zxid > than->zxid : vote->leader > than->leader;
}

static void tell(lk_simzk_ballot *ballot, int from, const lk_simzk_vote *vote)
{
    ballot->told[from] = true;
    ballot->votes[from] = *vote;
}

static void propose(lk_simzk_server *s, lk_simzk_vote vote)
{
    lk_simzk_election *const e = &s->election;
    e->vote = vote;
    e->vote.round = e->round;
    tell(&e->looking, s->id, &e->vote);
    send_all(s);
}

/* A majority that is of one mind has a moment for better votes to come. */
static void count(lk_simzk_server *s)
{
    lk_simzk_election *const e = &s->election;
    int same = 0;
    for (int i = 0; i < s->z->setup.servers; i++) {
        const lk_simzk_vote *const vote = &e->looking.votes[i];
        same += e->looking.told[i] && vote->leader == e->vote.leader && vote->zxid == e->vote.zxid &&
                vote->epoch == e->vote.epoch && vote->round == e->round;
    }
    e->final_ms = lk_simzk_is_majority(s->z, same) ? lk_simzk_clock_ms(s) + FINAL_MS : INT64_MAX;
}

void lk_simzk_elect(lk_simzk_server *s)
{
    lk_simzk_election *const e = &s->election;
    *e = (lk_simzk_election){.round = e->round + 1, .interval_ms = AGAIN_MS};
    e->again_ms = lk_simzk_clock_ms(s) + e->interval_ms;
    propose(s, own(s));
    count(s);
}

/* ------------------------------------------------------------------ votes ---- */

static void hear_looking(lk_simzk_server *s, int from, const lk_simzk_vote *vote)
{
    lk_simzk_election *const e = &s->election;
    if (vote->round < e->round) {
        send(s, from);
        return;
    }
    if (vote->round > e->round) {
        const lk_simzk_vote mine = own(s);
        e->round = vote->round;
        e->looking = (lk_simzk_ballot){0};
        propose(s, is_better(vote, &mine) ? *vote : mine);
        e->final_ms = INT64_MAX;
    } else if (is_better(vote, &e->vote)) {
        propose(s, *vote);
        e->final_ms = INT64_MAX;
    }
    tell(&e->looking, from, vote);
    if (e->final_ms == INT64_MAX)
        count(s);
}

/* Whether a majority follows that leader, and it says itself that it leads. */
static bool is_led(const lk_simzk_server *s, const lk_simzk_ballot *ballot, const lk_simzk_vote *by)
{
    int same = 0;
    for (int i = 0; i < s->z->setup.servers; i++)
        same +=
            ballot->told[i] && ballot->votes[i].leader == by->leader && ballot->votes[i].epoch == by->epoch;
    return lk_simzk_is_majority(s->z, same) && by->leader != s->id && ballot->told[by->leader] &&
           ballot->votes[by->leader].role == LK_SIMZK_LEADING;
}

static void hear_decided(lk_simzk_server *s, int from, const lk_simzk_vote *vote)
{
    lk_simzk_election *const e = &s->election;
    tell(&e->decided, from, vote);
    if (vote->round == e->round)
        tell(&e->looking, from, vote);
    if (!is_led(s, &e->decided, vote) && !(vote->round == e->round && is_led(s, &e->looking, vote)))
        return;
    e->round = vote->round;
    e->vote = *vote;
    e->final_ms = lk_simzk_clock_ms(s);
}

void lk_simzk_elect_receive(lk_simzk_server *s, int from, const lk_simzk_vote *vote)
{
    if (s->role != LK_SIMZK_LOOKING) {
        if (vote->role == LK_SIMZK_LOOKING)
            send(s, from);
    } else if (vote->role == LK_SIMZK_LOOKING) {
        hear_looking(s, from, vote);
    } else {
        hear_decided(s, from, vote);
    }
}

/* ------------------------------------------------------------------ time ---- */

void lk_simzk_elect_tick(lk_simzk_server *s)
{
    lk_simzk_election *const e = &s->election;
    const int64_t now = lk_simzk_clock_ms(s);
    if (now < e->again_ms)
        return;
    e->interval_ms = 2 * e->interval_ms < AGAIN_MAX_MS ? 2 * e->interval_ms : AGAIN_MAX_MS;
    e->again_ms = now + e->interval_ms;
    send_all(s);
}

int64_t lk_simzk_elect_due(const lk_simzk_server *s)
{
    return s->election.again_ms < s->election.final_ms ? s->election.again_ms : s->election.final_ms;
}

int lk_simzk_elected(const lk_simzk_server *s)
{
    return lk_simzk_clock_ms(s) >= s->election.final_ms ? s->election.vote.leader : -1;
}
