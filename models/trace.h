/*
 * trace.h: a model that follows a trace of the simulation (script/prove --traces), instead of doing what it likes.
 *
 * Each event of the trace has to be a step of the model: `event` is the next one, `who` its client, and so on. A step whose event
 * is not next is not taken. A step that no trace shows may be taken by the client of the next event alone, as it changes nothing
 * that others see. Time passes by what the trace says, for each clock.
 *
 * A model includes this behind CLIENTS, defines passes(), and calls begins_trace() in its init.
 */
c_decl
{
    \#include "trace.c"
}

int at;   /* how many events were taken */
int used; /* the steps that were, a bit each */
byte event, who, next;
int about, left;         /* a number, and a time until D: what they mean the model's head tells */
int passed[CLIENTS + 1]; /* the time before the event, by the server's clock and those of clients */
byte i;

#define begins_trace()                                                                                       \
    c_code                                                                                                   \
    {                                                                                                        \
        trace_next(0, now.used, &now.event, &now.who, &now.next, &now.about, &now.left, now.passed,          \
                   CLIENTS + 1);                                                                             \
    }
#define took(STEP)                                                                                           \
    used = used | (1 << STEP_##STEP);                                                                        \
    at++;                                                                                                    \
    c_code                                                                                                   \
    {                                                                                                        \
        trace_next(now.at, now.used, &now.event, &now.who, &now.next, &now.about, &now.left, now.passed,     \
                   CLIENTS + 1);                                                                             \
    };                                                                                                       \
    passes()
#define did(STEP)       used = used | (1 << STEP_##STEP)
#define shows(EVENT, N) (event == EVENT_##EVENT && who == N)
#define hidden_of(N)    (who == N)
