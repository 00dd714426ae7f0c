/* link.c: message after message leaves as the rules say; see link.h. */
#include "proxy/link.h"

#include <string.h>

/* What becomes of the first message of a way. */
typedef enum { WAIT, PASS, DROP, HARM, ANSWER, CLOSE } verdict;

static verdict judge_request_locked(lk_link *link, lk_rules *r, lk_message *request) LK_REQUIRES(r->mutex)
{
    if (link->held)
        return WAIT;
    if (r->hold[LK_UP])
        return link->ways[LK_UP].ended ? CLOSE : WAIT;
    if (r->protocol->is == NULL)
        return PASS;
    request->nth = ++link->asked;

    const lk_fault fault = lk_rules_meet_locked(r, request);

    if (fault.harm == LK_PROXY_WITHHOLD)
        return CLOSE;
    link->answer = lk_rules_answer_locked(r, request);
    if (link->answer != NULL) {
        link->answered++;
        return ANSWER;
    }
    if (fault.harm != 0) {
        link->fault = fault;
        link->faulted = r->protocol->number(request);
    }
    return PASS;
}

static verdict judge_reply_locked(lk_link *link, lk_rules *r, lk_message *reply) LK_REQUIRES(r->mutex)
{
    if (r->hold[LK_DOWN])
        return link->ways[LK_DOWN].ended ? CLOSE : WAIT;
    if (r->protocol->number == NULL)
        return PASS;
    reply->nth = link->answered < link->asked ? link->answered + 1 : 0;

    const int64_t number = r->protocol->number(reply);

    if (number == LK_UNASKED) {
        r->dropped += r->drop_unasked ? 1 : 0;
        return r->drop_unasked || link->mute ? DROP : PASS;
    }
    link->answered++;
    if (link->fault.harm != 0 && number == link->faulted) {
        r->harmed++; /* first: the client may act as soon as it is harmed */
        return HARM;
    }
    return link->mute ? DROP : PASS;
}

static verdict judge(lk_link *link, lk_rules *r, int way, lk_message *message)
{
    verdict v = WAIT;
    lk_mutex_lock(&r->mutex);
    if (!r->cut_all && !r->hold_old && !r->let_old)
        v = way == LK_UP ? judge_request_locked(link, r, message) : judge_reply_locked(link, r, message);
    lk_mutex_unlock(&r->mutex);
    return v;
}

static bool flood(int client, const char *head, const char *more)
{
    bool open = lk_way_send(client, head, strlen(head));
    while (open && more[0] != '\0')
        open = lk_way_send(client, more, strlen(more));
    return open;
}

static bool trickle(int client, const lk_message *reply)
{
    bool open = true;
    for (size_t i = 0; i < reply->length && open; i++)
        open = lk_way_send(client, reply->bytes + i, 1);
    return open;
}

/* Does the harm; false when the connection is to be closed. */
static bool harm(lk_link *link, const lk_protocol *protocol, const lk_message *reply)
{
    const int client = link->ways[LK_DOWN].to;
    const lk_fault fault = link->fault;
    link->fault = (lk_fault){0};
    char forged[256];
    switch (fault.harm) {
    case LK_PROXY_GARBAGE:
        return lk_way_send(client, protocol->nonsense, protocol->nonsense_length);
    case LK_PROXY_FORGE:
        return lk_way_send(client, forged, fault.forge(reply, forged, sizeof forged));
    case LK_PROXY_FLOOD:
        return flood(client, fault.head, fault.more);
    case LK_PROXY_SWALLOW:
        link->mute = true;
        return true;
    case LK_PROXY_TRICKLE:
        return trickle(client, reply);
    case LK_PROXY_CUT:
    case LK_PROXY_WITHHOLD:
        break;
    }
    lk_way_send(client, reply->bytes, fault.bytes < reply->length ? fault.bytes : reply->length);
    return false;
}

/* A client that has closed a connection that is held is sent nothing, and is no reason to close the other
 * side. */
static bool deliver(lk_link *link, int way, const lk_message *message)
{
    const bool nobody = way == LK_DOWN && link->ways[LK_UP].ended;
    return nobody || lk_way_send(link->ways[way].to, message->bytes, message->length);
}

/* Nothing of it is kept for the server. */
static bool answer(lk_link *link, const lk_message *request)
{
    char forged[256];
    return lk_way_send(link->ways[LK_DOWN].to, forged, link->answer(request, forged, sizeof forged));
}

static bool pass_way(lk_link *link, lk_rules *r, int way, int64_t now)
{
    lk_way *w = &link->ways[way];
    while (w->first != NULL && w->first->due <= now) {
        lk_message message = {w->first->bytes, w->first->length, 0};
        bool open = true;

        if (message.length == 0) /* the end */
            return way == LK_UP && link->held;
        switch (judge(link, r, way, &message)) {
        case WAIT:
            return true;
        case PASS:
            open = deliver(link, way, &message);
            break;
        case HARM:
            open = harm(link, r->protocol, &message);
            break;
        case ANSWER:
            open = answer(link, &message);
            break;
        case CLOSE:
            open = false;
            break;
        case DROP:
            break;
        }
        if (!open)
            return false;
        lk_way_drop(w);
    }
    return true;
}

bool lk_link_pass(lk_link *link, lk_rules *rules, int64_t now)
{
    return pass_way(link, rules, LK_UP, now) && pass_way(link, rules, LK_DOWN, now);
}
