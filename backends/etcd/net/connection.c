/* connection.c: a connection from stage to stage. When it breaks, the driver goes to the next endpoint at
 * once, and pauses after each round of all endpoints. Calls that wait for a connection are woken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lk_error.h"
#include "lk_poll.h"
#include "state.h"

static const int64_t pause_least_ns = 20 * LK_MS, pause_most_ns = LK_S;
static const int64_t patience_least_ns = 20 * LK_MS;

bool lk_etcd_is_up_locked(const lk_etcd_net *net)
{
    return lk_etcd_serves_locked(net);
}

void lk_etcd_patience_locked(lk_etcd_net *net, int64_t ns, int64_t busy_ns)
{
    net->patience = lk_time_earlier(net->patience_ns, lk_time_later(ns, patience_least_ns));
    net->busy_patience = lk_time_later(net->patience, lk_time_earlier(busy_ns, 2 * net->patience));
    lk_etcd_kick_locked(net); /* a poll may end later than that */
}

void lk_etcd_call_done_locked(lk_etcd_net *net, lk_etcd_call *call)
{
    call->done = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
    else
        lk_etcd_kick_locked(net); /* the call may be the one that drives */
}

static void calls_go_on_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    LK_EACH(lk_etcd_call, call, link, &net->calls)
        if (call->wants_up)
            lk_etcd_call_done_locked(net, call);
}

/* ---------------------------------------------------------------- the beginning ---- */
static void went_up_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    net->stage = LK_ETCD_UP;
    net->was_up = true;
    net->denied = false;
    net->trouble = (locker_error){.status = LOCKER_OK};
    if (net->suspected)
        net->svc->suspect(net->svc, false);
    net->suspected = false;
    lk_etcd_ask_of_member_locked(net);
    calls_go_on_locked(net);
    net->owner->on_up(net->e);
}

static void login_refused_locked(lk_etcd_net *net, const lk_etcd_reply *reply) LK_REQUIRES(*net)
{
    const char *const here = lk_etcd_here_locked(net);
    net->denied = !lk_etcd_unknown(reply->status);
    if (net->denied)
        lk_etcd_break_locked(net, LOCKER_DENIED, 0,
                             "etcd at %s refused the login: %s; check user and password", here, reply->text);
    else
        lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, 0, "etcd at %s did not answer the login: %s", here,
                             reply->text);
}

static void no_users_locked(lk_etcd_net *net, const lk_etcd_reply *reply) LK_REQUIRES(*net)
{
    if (!net->login_unwanted)
        net->svc->log(net->svc, LOCKER_LOG_WARN,
                      "etcd: %s has no authentication (%s), so every client "
                      "may change every key; continuing without login",
                      lk_etcd_here_locked(net), reply->text);
    net->login_unwanted = true;
}

LK_UNCHECKED static void login_done_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply)
{
    lk_etcd_net *const net = context;
    (void)e;
    net->logged_in = reply->status == LK_ETCD_OK || reply->status == LK_ETCD_FAILED_PRECONDITION;
    if (reply->status == LK_ETCD_FAILED_PRECONDITION)
        no_users_locked(net, reply);
    else if (reply->status != LK_ETCD_OK)
        login_refused_locked(net, reply);
    else if ((net->token = strdup(((const LkEtcdPb__LoggedIn *)reply->message)->token)) == NULL)
        lk_etcd_break_locked(net, LOCKER_NOMEM, 0, "out of memory");
}

static void log_in_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    LkEtcdPb__Login login = LK_ETCD_PB__LOGIN__INIT;
    login.name = net->user;
    login.password = net->password;
    net->stage = LK_ETCD_LOGIN;
    net->logged_in = false;
    if (lk_etcd_ask_locked(net, &lk_etcd_login, &login.base, login_done_locked, net) == NULL)
        lk_etcd_break_locked(net, LOCKER_NOMEM, 0, "out of memory");
}

/* Take the new password, if the file could be read. Return false if nothing was read since the last one
 * was taken. */
static bool take_password_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    char *anew = NULL;
    const bool is_read = lk_etcd_secret_take(net->secret, &anew);
    if (anew != NULL) {
        explicit_bzero(net->password, strlen(net->password));
        free(net->password);
        net->password = anew;
    }
    return is_read;
}

/* Go on with the login once the password is read. If that takes longer than a member may take to answer,
 * go on with the known password. */
static void read_on_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    if (take_password_locked(net) || lk_etcd_now(net) >= net->read_until)
        log_in_locked(net);
}

/* Begin the login. The password may have changed since the last login. A password that was read too late
 * for the last login is still newer than the known one. Otherwise a file that is always slow would make
 * each login use the first password. */
static void begin_login_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    if (net->secret != NULL)
        (void)take_password_locked(net);
    if (net->secret == NULL || !net->was_up || !lk_etcd_secret_read(net->secret, net->svc)) {
        log_in_locked(net);
        return;
    }
    net->stage = LK_ETCD_READING;
    net->read_until = lk_time_earlier(net->attempt_until, lk_time_after(lk_etcd_now(net), net->patience));
    read_on_locked(net);
}

static void cant_reach_locked(lk_etcd_net *net, int failure) LK_REQUIRES(*net)
{
    lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, failure, "cannot reach etcd at %s: %s; %s",
                         lk_etcd_here_locked(net), strerror(failure),
                         failure == EMFILE || failure == ENFILE ? "raise the limit on open files (ulimit -n)"
                                                                : "check that etcd is running there");
}

static void attempt_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net)
{
    net->stage = LK_ETCD_CONNECTING;
    net->pong_at = LOCKER_NEVER;
    net->denied = false;
    net->attempt_until = lk_time_after(now, net->attempt_ns);
    free(net->token);
    net->token = NULL;
    const int failure = lk_etcd_socket_open_locked(net);
    if (failure != 0)
        cant_reach_locked(net, failure);
}

static void greet_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    net->stage = LK_ETCD_GREETING;
    if (!lk_etcd_http2_begin_locked(net))
        lk_etcd_break_locked(net, LOCKER_NOMEM, 0, "out of memory");
}

/* Report why TLS failed. What the other end said or is goes to the user; other failures may be over in a
 * moment. */
static void not_secure_locked(lk_etcd_net *net, int failure) LK_REQUIRES(*net)
{
    locker_error why;
    bool permanent;
    const char *const here = lk_etcd_here_locked(net);
    if (lk_tls_told(net->secure, here, &why, &permanent)) {
        net->denied =
            permanent && net->endpoints->count == 1; /* with several endpoints, another one may work */
        lk_etcd_break_locked(net, why.status, why.os_error, "%s", why.text);
    } else {
        lk_etcd_break_locked(
            net, LOCKER_UNAVAILABLE, failure,
            "the server at %s did not complete the TLS handshake: %s; check that this is its TLS port", here,
            failure == ECONNRESET ? "it closed the connection" : strerror(failure));
    }
}

static void secure_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    const int failure = lk_tls_handshake(net->secure, &net->waits);
    if (failure == 0)
        greet_locked(net);
    else if (failure != EAGAIN)
        not_secure_locked(net, failure);
}

/* Return the name for which the certificate must be valid. */
static const char *host_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    return net->hosts->list[net->endpoints->list[net->endpoint].host].name;
}

static void connected_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    const int failure = lk_etcd_socket_finish_locked(net);
    if (failure == EAGAIN)
        return;
    if (failure != 0) {
        cant_reach_locked(net, failure);
    } else if (!net->tls.on) {
        greet_locked(net);
    } else if ((net->secure = lk_tls_new(&net->tls, net->fd, host_locked(net))) == NULL) {
        lk_etcd_break_locked(net, LOCKER_NOMEM, 0, "out of memory");
    } else {
        net->stage = LK_ETCD_SECURING;
        secure_locked(net);
    }
}

/* ---------------------------------------------------------------- the end ---- */
void lk_etcd_leave_member_locked(lk_etcd_net *net, const char *why)
{
    lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, 0, "closed the connection to etcd at %s: %s",
                         lk_etcd_here_locked(net), why);
    lk_etcd_kick_locked(net);
    if (!net->reading)
        lk_etcd_keeper_by_locked(net, 0);
}

static bool somebody_hurries_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    LK_EACH(lk_etcd_call, call, link, &net->calls)
        if (call->wants_up && call->prompt)
            return true;
    return false;
}

/* Return when the next attempt is made. After a refused login there is no hurry. */
static int64_t pause_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    const uint64_t rounds = net->failures / net->endpoints->count;
    if (net->denied)
        return pause_most_ns;
    if (net->failures % net->endpoints->count != 0)
        return 0;
    if (somebody_hurries_locked(net) || rounds <= 1)
        return pause_least_ns;
    return rounds < 8 ? lk_time_earlier(pause_least_ns << (rounds - 1), pause_most_ns) : pause_most_ns;
}

void lk_etcd_hurry_locked(lk_etcd_net *net)
{
    if (net->stage != LK_ETCD_AWAY || net->denied)
        return;
    net->retry_at = lk_time_earlier(net->retry_at, net->ended_at + pause_least_ns);
    lk_etcd_kick_locked(net);
}

static void calls_have_failed_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    LK_EACH(lk_etcd_call, call, link, &net->calls) {
        call->deserted = ++call->failures >= net->endpoints->count;
        if (call->wants_up && (net->denied || (call->prompt && call->deserted)))
            lk_etcd_call_done_locked(net, call);
    }
}

static void end_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    const bool was_up = net->stage == LK_ETCD_UP;
    net->stage = LK_ETCD_AWAY;
    net->broken = net->going = false;
    lk_etcd_http2_end_locked(net);
    lk_etcd_socket_close_locked(net, true);
    if (net->failures == 0) /* the connection has served since, so the lookup may be old */
        lk_etcd_found_forget_locked(net);
    net->failures++;
    net->ended_at = lk_etcd_now(net);
    net->retry_at = lk_time_after(net->ended_at, pause_locked(net));
    net->endpoint = (net->endpoint + 1) % net->endpoints->count;
    if (was_up) {
        net->svc->log(net->svc, LOCKER_LOG_INFO, "%s; connecting again", net->trouble.text);
        net->suspected = true;
        net->svc->suspect(net->svc, true);
    }
    lk_etcd_requests_lost_locked(net);
    lk_etcd_watchers_lost_locked(net);
    if (was_up)
        net->owner->on_down(net->e);
    calls_have_failed_locked(net);
}

/* Return advice for an endpoint that is silent from the beginning: it may be another service. */
static const char *advice_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    switch (net->stage) {
    case LK_ETCD_CONNECTING:
        return "; check that etcd is running there";
    case LK_ETCD_SECURING:
        return "; check that etcd is running there, and that this is its TLS port";
    case LK_ETCD_GREETING:
        return "; check that etcd is running there, and that this is its client port";
    default:
        return "";
    }
}

locker_status lk_etcd_away_locked(const lk_etcd_net *net, locker_error *err)
{
    const locker_error *const trouble = &net->trouble;
    if (lk_etcd_serves_locked(net) || trouble->status == LOCKER_OK)
        return lk_unavailable(err, "etcd at %s does not answer%s", net->hosts->names,
                              net->endpoints->count > 1 ? "; check that a majority of its members is running"
                                                        : advice_locked(net));
    if (net->endpoints->count == 1)
        return locker_error_set(err, trouble->status, trouble->os_error, "%s", trouble->text);
    return locker_error_set(err, trouble->status, trouble->os_error,
                            "no member of etcd at %s can be used; last error: %s", net->hosts->names,
                            trouble->text);
}

/* ---------------------------------------------------------------- the driving thread's work ---- */
/* Return when the oldest request must be answered; never: there is none. A server that answers other
 * requests meanwhile is busy, and gets more time: another server would only get the same requests again. */
static int64_t silent_at_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    const lk_list *const oldest = lk_list_first(&net->requests);
    if (oldest == NULL)
        return LOCKER_NEVER;
    const int64_t sent = LK_CONTAINER(oldest, lk_etcd_request, link)->sent;
    const int64_t heard_at =
        lk_time_earlier(net->answered_at, lk_time_after(sent, net->busy_patience - net->patience));
    return lk_time_after(lk_time_later(sent, heard_at), net->patience);
}

/* Return when the connection, or the attempt, is given up. */
static int64_t over_at_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    return net->stage == LK_ETCD_UP ? silent_at_locked(net) : net->attempt_until;
}

int64_t lk_etcd_due_locked(const lk_etcd_net *net)
{
    if (net->broken)
        return 0;
    int64_t next =
        net->stage == LK_ETCD_AWAY ? net->retry_at : lk_time_earlier(net->pong_at, over_at_locked(net));
    if (net->stage == LK_ETCD_READING)
        next = lk_time_earlier(next, net->read_until);
    return lk_time_earlier(next, lk_etcd_look_up_at_locked(net));
}

/* Go to servers that have moved at once. End an attempt at an address that no server has now, unless
 * something answers there. */
static void go_where_they_are_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net)
{
    lk_etcd_look_up_locked(net, now);
    lk_etcd_found_locked(net);
    if (net->fresh == NULL || net->stage == LK_ETCD_UP)
        return;
    if (net->stage < LK_ETCD_READING && lk_etcd_has_moved_locked(net))
        lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, 0, "etcd at %s has another address now",
                             lk_etcd_here_locked(net));
    lk_etcd_settle_locked(net);
    if (net->stage != LK_ETCD_AWAY)
        return;
    lk_etcd_endpoints_replace_locked(net);
    net->failures = 0;
    net->retry_at = lk_time_earlier(net->retry_at, now);
    LK_EACH(lk_etcd_call, call, link, &net->calls) {
        call->failures = 0;
        call->deserted = false;
    }
}

void lk_etcd_tend_locked(lk_etcd_net *net, int64_t now)
{
    lk_etcd_settle_locked(net);
    if (net->session != NULL)
        lk_etcd_pong_locked(net, now);
    if (net->stage != LK_ETCD_AWAY && now >= over_at_locked(net))
        lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, 0, "etcd at %s does not answer%s",
                             lk_etcd_here_locked(net), advice_locked(net));
    lk_etcd_settle_locked(net);
    go_where_they_are_locked(net, now);
    for (size_t i = 0; i < net->endpoints->count && net->stage == LK_ETCD_AWAY && now >= net->retry_at; i++) {
        attempt_locked(net, now);
        lk_etcd_settle_locked(net);
    }
}

void lk_etcd_serve_locked(lk_etcd_net *net, short told)
{
    if (told == 0 || net->fd < 0)
        return;
    if (net->stage == LK_ETCD_CONNECTING)
        connected_locked(net);
    else if (net->stage == LK_ETCD_SECURING)
        secure_locked(net);
    else if ((told & (POLLIN | POLLHUP | POLLERR)) != 0)
        lk_etcd_receive_locked(net);
    lk_etcd_settle_locked(net);
    lk_etcd_flush_locked(net);
}

/* End a connection that takes no new requests, after its last answer. */
static void gone_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    if (net->stage == LK_ETCD_UP && net->trouble.status != LOCKER_OK)
        net->broken = true; /* `going` was the reason */
    else
        lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, 0,
                             "etcd at %s ended a stream without an answer, or is about to stop",
                             lk_etcd_here_locked(net));
}

void lk_etcd_settle_locked(lk_etcd_net *net)
{
    if (!net->broken && net->stage == LK_ETCD_GREETING && net->greeted) {
        if (net->user != NULL)
            begin_login_locked(net);
        else
            went_up_locked(net);
    } else if (!net->broken && net->stage == LK_ETCD_READING) {
        read_on_locked(net);
    } else if (!net->broken && net->stage == LK_ETCD_LOGIN && net->logged_in) {
        went_up_locked(net);
    }
    if (net->going && lk_list_empty(&net->requests))
        gone_locked(net);
    if (net->broken)
        end_locked(net);
}
