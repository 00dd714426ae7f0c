/*
 * session.pml: until when may a client of ZooKeeper believe that its session lives?
 *
 * The leader ends a session T after it was last touched there. A request touches it in the table of the server
 * that the client is connected to, and that table travels to the leader in the reply to the leader's next PING.
 * So an answer, though a majority stands behind it, does not say that the leader's timer was set. What does is
 * an order of messages, and the rule for the local deadline D is derived from it:
 *
 *   Request A was answered. P later, or more, B is sent, and answered by a majority. P is as long as no PING
 *   takes to be made, to travel and to be replied to. So a reply that carries A's touch left before B did,
 *   the way to the leader is one stream, and B was ordered: the touch has arrived, later than A was sent.
 *   D = A's sending + T - MARGIN. The connection's own (re)establishment is such an A, from which on B needs
 *   no distance, because the leader itself was asked. B is needed, because that leader may have been deposed.
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DTICKS=8     T is 8 units
 * run full: -DTICKS=8 -DLEADER_SERVES     the client is connected to the leader itself
 * run full: -DTICKS=8 -DOBSERVER -DINTERVALS=2     an observer behind a follower, with two intervals in P
 * fault FORMER: D is 3/4 T after the sending of the last answered request
 * fault HALF: D is 1/2 T after that
 * fault STOPPED: a first grant counts for 1/4 T without a second request; the client was stopped before
 * fault NO_STALL: P is the interval of the PINGs alone, without the leader's stall
 * fault LONG_STALL: the leader sends no PING for longer than P allows, and still orders requests
 * fault SLOW_LINK: a PING travels, or its follower is stopped, for longer than P allows
 * fault OBSERVER: an observer behind a follower (observerMasterPort) adds a second table
 * fault RECEIVED: D counts from when A's answer came
 * fault NO_MARGIN: clocks run at different speeds, and D leaves no margin for that
 * fault SYNC: B is a sync, which a deposed leader answers
 * fault CONNECTED: a connection counts without B
 * fault READ: B is a read, which a server answers alone
 * witness GRANTED: the rule gives a deadline in the future
 * witness MOVED: the client connects again
 * witness ENDED: the session ends while the client goes on
 */
#ifndef TICKS
#define TICKS 8
#endif
#ifndef INTERVALS
#define INTERVALS 1
#endif
#define T TICKS
#define HALF_TICK (T / 4)       /* a tick is T/2 at most (minSessionTimeout is two ticks) */
#define STALL (T / 8)           /* leader's stall, travel of a PING and the follower's pause, together */
#define DRIFT 1                 /* by so much may the client's clock be off in the time of one pair */
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN DRIFT
#endif
#ifdef NO_STALL
#define P (HALF_TICK + DRIFT + 1)
#else
#define P (INTERVALS * (HALF_TICK + STALL) + DRIFT + 1) /* later than that, not in the same moment */
#endif

mtype = { PING, TOUCH, READ_A, ASK_A, ASK_B, ASK_C, CONNECT };

/* what the leader knows */
byte expires = T;     /* when it ends the session; 0: now */
bool ended;
byte pinged;          /* time since the last PING */
bool deposed;         /* the follower's leader is leader no more; another one has the timer */

/* the client's server, and the streams between the three */
bool table;           /* the session was touched */
bool observed;        /* an observer's own table, ahead of the follower's */
byte observed_pinged;
bool cut;             /* nothing goes from it to the leader any more */
chan to_server = [2] of { mtype };
chan to_client = [2] of { mtype };
chan to_leader = [3] of { mtype };
chan from_leader = [3] of { mtype };
byte travels;         /* time since the oldest PING under way was sent */
byte stood;           /* of the slack, what was used up by the leader before it */

/* what the client knows. Of all its requests, A and B (and C) are any two that the rule may take: the others
 * do no more than touch, which is noise(). */
mtype step = 0;       /* what was sent last */
bool answered;        /* ... and answered */
byte since_sent;      /* A's sending */
byte since_b;         /* B's sending, for the planted rules */
byte since_answer;    /* A's answer, up to P */
byte valid;           /* time left until D; 0: none */
byte slipped;         /* how much its clock was off already; one pair is enough to be wrong */
bool connected = true;
mtype step_at = 0;     /* scratch */

inline flush(c) { do :: len(c) > 0 -> c?_ :: len(c) == 0 -> break od; skip }

inline forget() {
    step = 0; answered = 0; since_sent = 0; since_b = 0; since_answer = 0
}

inline break_off() {
    flush(to_server); flush(to_client); flush(to_leader); flush(from_leader);
    table = 0; observed = 0; observed_pinged = 0; cut = 0; travels = 0; connected = 0;
    forget()
}

/* The client believes until `time` after what happened `ago`. */
inline believe(time, ago) {
    if
    :: time > ago && time - ago > valid -> valid = time - ago
    :: else
    fi
}

inline prove() {
#if defined(FORMER)
    believe(3 * T / 4, since_b);
#elif defined(HALF)
    believe(T / 2, since_b);
#elif defined(STOPPED)
    believe(T / 4, since_b);
#elif defined(RECEIVED)
    believe(T - MARGIN, since_answer);
#else
    believe(T - MARGIN, since_sent);
#endif
#ifdef GRANTED
    assert(valid == 0);
#endif
}

inline older(age, most) {
    if :: age < most -> age++ :: else fi
}

inline client_ages() {
    if :: step != 0 -> older(since_sent, T) :: else fi;
    if :: step == ASK_B || step == ASK_C -> older(since_b, T) :: else fi;
    if :: step == ASK_A && answered -> older(since_answer, T) :: step == ASK_B || step == ASK_C -> older(since_answer, T) :: else fi;
    if :: valid > 0 -> valid-- :: else fi
}

#ifdef LONG_STALL
#define PING_LATE (3 * T / 4)
#else
#define PING_LATE (HALF_TICK + STALL)
#endif
/* A PING that is under way was made `stood` late, and travels for what is left of the slack. */
#ifdef SLOW_LINK
#define travels_on true
#else
#define travels_on (travels == 0 || travels - 1 + stood < STALL)
#endif
#ifdef OBSERVER
#define observer_on observed_pinged < PING_LATE
#else
#define observer_on true
#endif
#define on_time (pinged < PING_LATE && travels_on && observer_on)

#if defined(FORMER) || defined(HALF) || defined(STOPPED)
#define far_enough true
#else
#define far_enough (since_answer >= P)
#endif

active proctype world()
{
    /* before: any time may have passed since the session was touched, and the last PING sent */
    select(expires : 1 .. T);
    select(pinged : 0 .. HALF_TICK);
    table = 0;
end:
    do
    /* ---- time ---- */
    :: d_step { !ended && on_time ->
        if :: expires > 0 -> expires-- :: else fi;
        pinged++;
        if :: travels > 0 -> travels++ :: else fi;
#ifdef OBSERVER
        observed_pinged++;
#endif
        client_ages() }
    /* ... to the client's clock, but not to the leader's, and the other way round */
    :: d_step { !ended && slipped < DRIFT && step != 0 -> slipped++; client_ages() }
    :: d_step { !ended && slipped < DRIFT && step != 0 && on_time -> slipped++;
        if :: expires > 0 -> expires-- :: else fi;
        pinged++;
        if :: travels > 0 -> travels++ :: else fi;
#ifdef OBSERVER
        observed_pinged++;
#endif
        }

    /* ---- the leader ---- */
    :: d_step { expires == 0 && !ended -> ended = 1;
#ifdef ENDED
        assert(false);
#endif
        assert(valid == 0) } /* another client may have the lock from here on */
    :: d_step { pinged >= HALF_TICK && connected && !(from_leader??[PING]) && len(from_leader) < 3 ->
        stood = (pinged > HALF_TICK -> pinged - HALF_TICK : 0);
        pinged = 0; travels = 1; from_leader!PING }
    :: d_step { pinged >= HALF_TICK && (!connected || (from_leader??[PING])) -> pinged = 0 }
    :: d_step { (to_leader?[TOUCH]) -> to_leader?TOUCH;
        if :: !ended && !deposed -> expires = T :: else fi }
    :: d_step { (to_leader?[CONNECT]) && len(from_leader) < 3 -> to_leader?CONNECT;
        if :: !ended && !deposed -> expires = T :: else fi;
        if :: !ended || deposed -> from_leader!CONNECT :: else fi }
    :: d_step { (to_leader?[ASK_A] || (to_leader?[ASK_B]) || (to_leader?[ASK_C])) && len(from_leader) < 3 ->
        to_leader?step_at;
        if
        :: !ended && !deposed -> from_leader!step_at
#ifdef SYNC
        :: deposed && step_at == ASK_B -> from_leader!step_at
#endif
        :: else
        fi;
        step_at = 0 }
    /* another leader: it starts with all sessions, each with its whole time */
    :: d_step { !ended && !deposed -> expires = T; deposed = 1 }

    /* ---- the follower (with LEADER_SERVES: the same process as the leader) ---- */
    :: d_step { len(to_server) > 0 && len(to_leader) < 3 && len(to_client) < 2 -> to_server?step_at;
#ifdef LEADER_SERVES
        if :: !ended && !deposed -> expires = T :: else fi;
#elif defined(OBSERVER)
        if :: step_at != CONNECT -> observed = 1 :: else fi;
#else
        if :: step_at != CONNECT -> table = 1 :: else fi;
#endif
        if
        :: step_at == READ_A -> to_client!step_at
#ifdef READ
        :: step_at == ASK_B -> to_client!step_at
#endif
        :: cut -> skip
        :: else -> to_leader!step_at
        fi;
        step_at = 0 }
    :: d_step { (from_leader?[PING]) && len(to_leader) < 3 -> from_leader?PING; travels = 0;
        if :: table && !cut -> to_leader!TOUCH :: else fi;
        table = 0 }
    :: d_step { len(from_leader) > 0 && !(from_leader?[PING]) && len(to_client) < 2 ->
        from_leader?step_at; to_client!step_at; step_at = 0 }
#ifdef OBSERVER
    :: d_step { observed_pinged >= HALF_TICK -> observed_pinged = 0;
        if :: observed -> table = 1; observed = 0 :: else fi }
#endif
    /* the client library's own pings, reads, other requests */
    :: d_step { connected && !table -> 
#ifdef OBSERVER
        observed = 1
#else
        table = 1
#endif
        }

    /* ---- cuts ---- */
    :: d_step { connected && !cut -> flush(to_leader); cut = 1 }
    :: d_step { connected -> break_off() }

    /* ---- the client, which may stop at any step for any time ---- */
    :: d_step { !connected && step == 0 && len(to_server) < 2 ->
        connected = 1; pinged = 0; step = CONNECT; to_server!CONNECT }
    :: d_step { !connected && deposed -> deposed = 0 } /* or to a server of the new leader */
    :: d_step { connected && step == 0 && len(to_server) < 2 -> step = ASK_A; to_server!ASK_A }
    :: d_step { connected && step == 0 && len(to_server) < 2 -> step = ASK_A; to_server!READ_A }
    :: d_step { answered && (step == CONNECT || step == ASK_A && far_enough) && len(to_server) < 2 -> answered = 0; since_b = 0; step = ASK_B; to_server!ASK_B }
#ifdef THREE
    :: d_step { step == ASK_B && answered && len(to_server) < 2 ->
        answered = 0; step = ASK_C; to_server!ASK_C }
#endif
    :: d_step { len(to_client) > 0 -> to_client?step_at; answered = 1;
        if
#ifdef CONNECTED
        :: step_at == CONNECT -> prove()
#endif
#ifdef MOVED
        :: step_at == CONNECT -> assert(false)
#endif
#ifdef THREE
        :: step_at == ASK_C -> prove(); forget()
#else
        :: step_at == ASK_B -> prove(); forget()
#endif
        :: else
        fi;
        step_at = 0 }
    /* it gives up waiting, or takes another A */
    :: d_step { step != 0 && answered -> forget() }
    :: ended -> break
    od
}
