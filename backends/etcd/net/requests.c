/* requests.c: requests with one answer each. Each request has its own stream, so answers come in any
 * order. */
#include <stdlib.h>
#include <string.h>

#include "lk_error.h"
#include "state.h"

const lk_etcd_method lk_etcd_range = {"/etcdserverpb.KV/Range", &lk_etcd_pb__ranged__descriptor};
const lk_etcd_method lk_etcd_put = {"/etcdserverpb.KV/Put", &lk_etcd_pb__put_done__descriptor};
const lk_etcd_method lk_etcd_txn = {"/etcdserverpb.KV/Txn", &lk_etcd_pb__txn_done__descriptor};
const lk_etcd_method lk_etcd_lease_grant = {"/etcdserverpb.Lease/LeaseGrant",
                                            &lk_etcd_pb__lease_granted__descriptor};
const lk_etcd_method lk_etcd_lease_revoke = {"/etcdserverpb.Lease/LeaseRevoke",
                                             &lk_etcd_pb__lease_revoked__descriptor};
const lk_etcd_method lk_etcd_lease_ask = {"/etcdserverpb.Lease/LeaseTimeToLive",
                                          &lk_etcd_pb__lease_told__descriptor};
const lk_etcd_method lk_etcd_login = {"/etcdserverpb.Auth/Authenticate", &lk_etcd_pb__logged_in__descriptor};
const lk_etcd_method lk_etcd_status = {"/etcdserverpb.Maintenance/Status",
                                       &lk_etcd_pb__status_told__descriptor};
const lk_etcd_method lk_etcd_member_list = {"/etcdserverpb.Cluster/MemberList",
                                            &lk_etcd_pb__members_told__descriptor};

/* ---------------------------------------------------------------- messages, without the heap ---- */
LK_UNCHECKED static void *arena_take(void *context, size_t size)
{
    lk_etcd_net *const net = context;
    const size_t wanted = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    if (wanted > sizeof net->arena - net->arena_used) {
        net->arena_spilled = true;
        return malloc(size);
    }
    void *const at = net->arena + net->arena_used;
    net->arena_used += wanted;
    return at;
}

LK_UNCHECKED static void arena_give(void *context, void *at)
{
    const lk_etcd_net *const net = context;
    const uintptr_t begin = (uintptr_t)net->arena;
    if ((uintptr_t)at < begin || (uintptr_t)at >= begin + sizeof net->arena)
        free(at);
}

ProtobufCMessage *lk_etcd_unpack_locked(lk_etcd_net *net, const ProtobufCMessageDescriptor *type,
                                        const uint8_t *bytes, size_t len)
{
    ProtobufCAllocator arena = {arena_take, arena_give, net};
    net->arena_used = 0;
    net->arena_spilled = false;
    return protobuf_c_message_unpack(type, &arena, len, bytes);
}

void lk_etcd_unpacked_locked(lk_etcd_net *net, ProtobufCMessage *message)
{
    ProtobufCAllocator arena = {arena_take, arena_give, net};
    if (message != NULL && net->arena_spilled)
        protobuf_c_message_free_unpacked(message, &arena);
}

/* ---------------------------------------------------------------- requests and answers ---- */
/* The text is compared if a status has several meanings, or another one in another version. */
bool lk_etcd_login_expired_locked(lk_etcd_net *net, int status, const char *text)
{
    const bool expired = status == LK_ETCD_UNAUTHENTICATED || strstr(text, "invalid auth token") != NULL ||
                         strstr(text, "auth store is old") != NULL ||
                         strstr(text, "revision in header is old") != NULL ||
                         (net->token == NULL && strstr(text, "user name is empty") != NULL);
    if (net->user == NULL || net->stage != LK_ETCD_UP || !expired)
        return false;
    (void)locker_error_set(&net->trouble, LOCKER_UNAVAILABLE, 0, "etcd at %s no longer accepts the login: %s",
                           lk_etcd_here_locked(net), text);
    net->going = true; /* requests in flight are still answered */
    return true;
}

/* Return true if another member may carry out the request, or this one soon: it is busy, a learner, or
 * just started. From etcd 3.6 on, a learner and a starting member answer with the status of a final
 * refusal. */
static bool passes(const lk_etcd_stream *stream)
{
    const char *const text = stream->text;
    return (stream->status == LK_ETCD_RESOURCE_EXHAUSTED && strstr(text, "too many requests") != NULL) ||
           (stream->status == LK_ETCD_FAILED_PRECONDITION &&
            (strstr(text, "not supported for learner") != NULL || strstr(text, "not capable") != NULL));
}

static int status_of_locked(lk_etcd_net *net, const lk_etcd_stream *stream) LK_REQUIRES(*net)
{
    if (lk_etcd_login_expired_locked(net, stream->status, stream->text))
        return LK_ETCD_LOST;
    if (passes(stream))
        return LK_ETCD_UNAVAILABLE;
    return stream->status;
}

/* Keep the ended request for use again. */
static void retire_locked(lk_etcd_net *net, lk_etcd_request *request) LK_REQUIRES(*net)
{
    lk_etcd_stream_clear(&request->stream);
    request->done = NULL;
    lk_list_prepend(&net->spare, &request->link);
}

static void tell_locked(lk_etcd_net *net, const lk_etcd_request *request, lk_etcd_reply *reply)
    LK_REQUIRES(*net)
{
    reply->text = request->stream.text;
    reply->sent = request->sent;
    if (request->done != NULL)
        request->done(net->e, request->context, reply);
}

LK_UNCHECKED static void on_end(lk_etcd_net *net, lk_etcd_stream *stream)
{
    lk_etcd_request *const request = LK_CONTAINER(stream, lk_etcd_request, stream);
    lk_etcd_reply reply = {.status = status_of_locked(net, stream)};
    ProtobufCMessage *message = NULL;
    if (reply.status == LK_ETCD_OK && request->done != NULL) {
        enum { PREFIX = 5 };
        message = lk_etcd_unpack_locked(net, request->method->answer, stream->in.at + PREFIX,
                                        stream->in.len - PREFIX);
        if (message == NULL) {
            reply.status = LK_ETCD_LOST;
            lk_etcd_break_locked(net, LOCKER_PROTOCOL, 0, "etcd at %s sent an invalid answer to %s",
                                 lk_etcd_here_locked(net), request->method->path);
        }
    }
    if (net->stage == LK_ETCD_UP &&
        !lk_etcd_unknown(reply.status)) /* an accepted login is no useful answer yet */
        net->failures = 0;
    if (!lk_etcd_unknown(reply.status))
        net->answered_at = lk_etcd_now(net);
    reply.message = message;
    lk_list_remove(&request->link);
    tell_locked(net, request, &reply);
    lk_etcd_unpacked_locked(net, message);
    retire_locked(net, request);
}

static const lk_etcd_stream_kind one_answer = {.on_end = on_end};

static lk_etcd_request *take_spare_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    lk_list *const link = lk_list_take(&net->spare);
    if (link != NULL)
        return LK_CONTAINER(link, lk_etcd_request, link);
    lk_etcd_request *const request = calloc(1, sizeof *request);
    if (request != NULL)
        request->stream.kind = &one_answer;
    return request;
}

lk_etcd_request *lk_etcd_ask_locked(lk_etcd_net *net, const lk_etcd_method *method,
                                    const ProtobufCMessage *message, lk_etcd_done_fn done, void *context)
{
    lk_etcd_request *const request = take_spare_locked(net);
    if (request == NULL)
        return NULL;
    request->method = method;
    request->done = done;
    request->context = context;
    request->sent = lk_etcd_now(net);
    if (!lk_etcd_stream_add(&request->stream, message) ||
        !lk_etcd_stream_open_locked(net, &request->stream, method->path)) {
        retire_locked(net, request);
        return NULL;
    }
    lk_list_append(&net->requests, &request->link);
    return request;
}

lk_etcd_request *lk_etcd_send_locked(lk_etcd_net *net, const lk_etcd_method *method,
                                     const ProtobufCMessage *message, lk_etcd_done_fn done, void *context)
{
    return lk_etcd_serves_locked(net) ? lk_etcd_ask_locked(net, method, message, done, context) : NULL;
}

void lk_etcd_forget_locked(lk_etcd_request *request)
{
    request->done = NULL;
}

void lk_etcd_requests_lost_locked(lk_etcd_net *net)
{
    for (lk_list *link; (link = lk_list_take(&net->requests)) != NULL;) {
        lk_etcd_request *const request = LK_CONTAINER(link, lk_etcd_request, link);
        lk_etcd_reply reply = {.status = LK_ETCD_LOST};
        tell_locked(net, request, &reply);
        retire_locked(net, request);
    }
}

LK_UNCHECKED void lk_etcd_requests_free(lk_etcd_net *net)
{
    for (lk_list *link; (link = lk_list_take(&net->spare)) != NULL;) {
        lk_etcd_request *const request = LK_CONTAINER(link, lk_etcd_request, link);
        lk_etcd_bytes_free(&request->stream.in);
        lk_etcd_bytes_free(&request->stream.out);
        free(request);
    }
}

/* ---------------------------------------------------------------- meanings of answers ---- */
bool lk_etcd_unknown(int status)
{
    switch (status) {
    case LK_ETCD_TOO_LARGE:
    case LK_ETCD_LOST:
    case LK_ETCD_CANCELLED:
    case LK_ETCD_UNKNOWN:
    case LK_ETCD_DEADLINE_EXCEEDED:
    case LK_ETCD_ABORTED:
    case LK_ETCD_INTERNAL:
    case LK_ETCD_UNAVAILABLE:
        return true;
    default:
        return false;
    }
}

locker_status lk_etcd_error(const lk_etcd_reply *reply, const char *doing, const char *key, locker_error *err)
{
    if (reply->status == LK_ETCD_UNAUTHENTICATED || strstr(reply->text, "user name is empty") != NULL)
        return lk_denied(err,
                         "etcd requires a login (%s); write etcd://user@host, "
                         "and set password_file or LOCKER_PASSWORD",
                         reply->text);
    switch (reply->status) {
    case LK_ETCD_PERMISSION_DENIED:
        return lk_denied(err,
                         "etcd denied the user while %s at %s; grant a role of this user the right to read "
                         "and write all keys that begin with the path and '/' (locker-uri(7) has an example)",
                         doing, key);
    case LK_ETCD_NOT_FOUND:
        return lk_lost(err, "etcd answered '%s' while %s at %s", reply->text, doing, key);
    case LK_ETCD_TOO_LARGE:
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "%s, while %s at %s", reply->text, doing, key);
    case LK_ETCD_RESOURCE_EXHAUSTED:
        return lk_unavailable(err, "etcd refused a request while %s at %s: %s%s", doing, key, reply->text,
                              strstr(reply->text, "space exceeded") != NULL
                                  ? "; compact and defragment etcd, and disarm its alarm"
                                  : "");
    case LK_ETCD_UNIMPLEMENTED:
        return locker_error_set(err, LOCKER_PROTOCOL, 0,
                                "the server is not etcd 3.4 or later (%s); check its address and version",
                                reply->text);
    default:
        if (lk_etcd_unknown(reply->status))
            return lk_unavailable(err, "no answer from etcd while %s at %s: %s", doing, key,
                                  reply->text[0] != '\0' ? reply->text : "the connection was lost");
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "etcd answered '%s' (%d) while %s at %s",
                                reply->text, reply->status, doing, key);
    }
}
