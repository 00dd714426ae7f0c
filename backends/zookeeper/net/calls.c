/* calls.c: the callers that wait. Each is on its own thread's stack, and in one list. */
#include "calls.h"
#include "state.h"

static lk_zk_call *call_of(lk_list *link)
{
    return LK_CONTAINER(link, lk_zk_call, link);
}

void lk_zk_call_done_locked(lk_zk_call *call)
{
    call->done = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
}

void lk_zk_call_answered_locked(lk_zk_call *call)
{
    if (--call->pending == 0)
        lk_zk_call_done_locked(call);
}

void lk_zk_calls_go_on_locked(lk_zk_net *net)
{
    LK_LIST_EACH(link, &net->calls)
        if (call_of(link)->wants_up)
            lk_zk_call_done_locked(call_of(link));
}

/* The client library tries one server after the other, in a list of odd length two places on each time
 * (resolve.c): as many in a row as are listed were all of them. */
void lk_zk_calls_attempt_failed_locked(lk_zk_net *net, bool refused, unsigned servers)
{
    LK_LIST_EACH(link, &net->calls) {
        lk_zk_call *const call = call_of(link);
        call->refusals = refused ? call->refusals + 1 : 0;
        call->hurried = call->hurried && refused;
        if (!call->wants_up || !call->prompt || call->refusals < servers)
            continue;
        call->deserted = true;
        lk_zk_call_done_locked(call);
    }
}

bool lk_zk_calls_hurried_locked(const lk_zk_net *net)
{
    LK_LIST_EACH(link, &net->calls)
        if (call_of(link)->wants_up && call_of(link)->hurried)
            return true;
    return false;
}

bool lk_zk_calls_drive_locked(const lk_zk_net *net)
{
    LK_LIST_EACH(link, &net->calls) {
        lk_zk_call *const call = call_of(link);
        if (call->asleep && !call->done) {
            pthread_cond_signal(&call->cond);
            return true;
        }
    }
    return false;
}
