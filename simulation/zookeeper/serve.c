/* serve.c: what a server does for its clients as soon as it reads what they send: it lets them in, logs them in, and takes
 * their requests (ZooKeeperServer). */

#include <stdlib.h>
#include <string.h>

#include "network.h"

static void request(lk_simzk_server *s, lk_simzk_call *call)
{
    call->owner = LK_SIMZK_OWN;
    if (s->role == LK_SIMZK_LEADING)
        lk_simzk_lead_request(s, call);
    else
        lk_simzk_follow_request(s, call);
}

/* ------------------------------------------------------------------ sessions ---- */

static void create_session(lk_simzk_server *s, lk_simzk_connection *c)
{
    c->session = (int64_t)(s->id + 1) << 56 | (int64_t)++s->z->serial;
    lk_simzk_call *const call = lk_simzk_call_new(LK_SIMZK_CALL_CREATE_SESSION, c, c->session, NULL);
    call->timeout_ms = c->timeout_ms;
    request(s, call);
}

static void reopen_session(lk_simzk_server *s, lk_simzk_connection *c)
{
    c->session = c->hello.session;
    lk_simzk_hang_up_session(s, c->session, c);
    if (c->hello.password != lk_simzk_password(c->session)) {
        lk_simzk_welcome(s, c, false);
    } else if (s->role == LK_SIMZK_FOLLOWING) {
        lk_simzk_follow_revalidate(s, c);
    } else {
        const bool valid =
            lk_simzk_tracker_touch(&s->tracker, c->session, c->timeout_ms, lk_simzk_clock_ms(s));
        if (valid)
            lk_simzk_tracker_own(&s->tracker, c->session, LK_SIMZK_OWN);
        lk_simzk_welcome(s, c, valid);
    }
}

static int32_t between(int32_t least, int32_t value, int32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A client that has seen more than this server has to go to another one. */
static void greet(lk_simzk_server *s, lk_simzk_connection *c)
{
    const lk_simzk_setup *const setup = &s->z->setup;
    c->greeted = true;
    if (!s->serves || c->hello.seen > s->tree.zxid) {
        lk_simzk_hang_up(s, c);
        return;
    }
    c->timeout_ms = between(setup->min_timeout_ms, c->hello.timeout_ms, setup->max_timeout_ms);
    if (c->hello.session == 0)
        create_session(s, c);
    else
        reopen_session(s, c);
}

/* ------------------------------------------------------------------ requests ---- */

static void log_in(lk_simzk_server *s, lk_simzk_connection *c, const lk_simzk_request *asked)
{
    lk_simzk_parcel *const parcel = lk_simzk_parcel_new(LK_SIMZK_REPLY);
    const bool known = strcmp(asked->op.path, "digest") == 0;
    const size_t len = asked->op.data.len > 0 ? (size_t)asked->op.data.len : 0;
    char *const id = lk_simzk_arena_alloc(&parcel->arena, len + 1);
    if (len > 0)
        memcpy(id, asked->op.data.bytes, len);
    const lk_simzk_ace ace = {LK_SIMZK_READ, asked->op.path, id};
    if (known && (c->ids.count == 0 || !lk_simzk_acl_allows((lk_simzk_acl){&ace, 1}, LK_SIMZK_READ, c->ids)))
        lk_simzk_connection_add_id(c, asked->op.path, id);
    parcel->answer.xid = asked->xid;
    parcel->answer.error = known ? LK_SIMZK_OK : LK_SIMZK_AUTHFAILED;
    lk_simzk_connection_put(c, parcel);
    if (!known)
        lk_simzk_hang_up(s, c);
}

/* Whoever is heard of lives on. False: the leader knows that the session has ended, and answers nothing. */
static bool touch(lk_simzk_server *s, const lk_simzk_connection *c)
{
    if (s->role == LK_SIMZK_LEADING)
        return lk_simzk_tracker_touch(&s->tracker, c->session, c->timeout_ms, lk_simzk_clock_ms(s));
    lk_simzk_touches_add(&s->following.touches, c->session, c->timeout_ms);
    return true;
}

static void read_input(lk_simzk_server *s, lk_simzk_connection *c)
{
    lk_simzk_input *const input = LK_CONTAINER(lk_list_take(&c->inputs), lk_simzk_input, link);
    lk_simzk_body *const body = input->body;
    free(input);
    body->ids = lk_simzk_acl_copy(c->ids, &body->arena);
    if (body->request.op.kind == LK_SIMZK_AUTH)
        log_in(s, c, &body->request);
    else if (touch(s, c))
        request(s, lk_simzk_call_new(LK_SIMZK_CALL_CLIENT, c, c->session, body));
    lk_simzk_body_unref(body);
}

/* A connection of which something can be read; NULL: none. */
static lk_simzk_connection *find_readable(const lk_simzk_server *s)
{
    LK_LIST_EACH(link, &s->connections) {
        lk_simzk_connection *const c = LK_CONTAINER(link, lk_simzk_connection, link);
        if (!c->greeted || (c->established && !lk_list_empty(&c->inputs)))
            return c;
    }
    return NULL;
}

void lk_simzk_serve(lk_simzk_server *s)
{
    if (!s->has_inputs || !s->running || s->stopped)
        return;
    s->has_inputs = false;
    for (lk_simzk_connection *c; (c = find_readable(s)) != NULL;) {
        if (c->greeted)
            read_input(s, c);
        else
            greet(s, c);
    }
}
