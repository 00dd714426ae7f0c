/* validity.c: until when the leader has a session for certain. The model of it is models/session.pml. */
#include "validity.h"

/* Set P. The time between two PINGs is half a tick. Servers give no session less than two ticks, unless they are
 * told to. And a leader, a server or what lies between them may stand still for a while. */
void lk_zk_validity_connected(lk_zk_validity *v, int64_t begun, int64_t timeout_ns, int64_t tick_ns)
{
    const int64_t ping_ns = tick_ns > 0 ? tick_ns / 2 : timeout_ns / 4, stall_ns = timeout_ns / 8;
    v->timeout_ns = timeout_ns;
    v->pass_on_ns = ping_ns + stall_ns;
    v->begun = begun;
    v->count = 0; /* what another server was told it may have kept to itself */
}

static lk_zk_touch nth_latest(const lk_zk_validity *v, uint64_t n)
{
    return v->touches[(v->count - 1 - n) % LK_ZK_TOUCHES];
}

/* One in each 1/32 of T will do, and then they reach back for T. */
void lk_zk_validity_answered(lk_zk_validity *v, int64_t sent, int64_t now)
{
    if (v->count > 0 && sent - nth_latest(v, 0).sent < v->timeout_ns / LK_ZK_TOUCHES)
        return;
    v->touches[v->count++ % LK_ZK_TOUCHES] = (lk_zk_touch){.sent = sent, .answered = now};
}

/* What is known to be at the leader when a request that was sent then has been ordered. */
static int64_t proven_by(const lk_zk_validity *v, int64_t sent)
{
    const uint64_t kept = v->count < LK_ZK_TOUCHES ? v->count : LK_ZK_TOUCHES;
    uint64_t n = 0;
    while (n < kept && nth_latest(v, n).answered > sent - v->pass_on_ns)
        n++;
    const int64_t known = n < kept ? nth_latest(v, n).sent : v->begun;
    return known > v->known ? known : v->known;
}

void lk_zk_validity_ordered(lk_zk_validity *v, int64_t sent)
{
    v->known = proven_by(v, sent);
}

/* The hundredth is for clocks that don't run equally fast. */
static int64_t end_of(const lk_zk_validity *v, int64_t touched)
{
    return touched + v->timeout_ns - v->timeout_ns / 100;
}

int64_t lk_zk_validity_deadline(const lk_zk_validity *v)
{
    return v->known > 0 ? end_of(v, v->known) : 0;
}

int64_t lk_zk_validity_promise(const lk_zk_validity *v, int64_t sent)
{
    return end_of(v, proven_by(v, sent));
}
