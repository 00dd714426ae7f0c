/* requests.c: the commands that run scripts: a call for one lock, and a batch over the locks of many claims. */
#include "instance.h"
#include "net/command.h"

/* ------------------------------------------------------------------ scripts ---- */

bool lk_redis_is_numbers(const redisReply *reply, size_t count)
{
    bool is = reply->type == REDIS_REPLY_ARRAY && reply->elements == count;
    for (size_t i = 0; is && i < count; i++)
        is = reply->element[i]->type == REDIS_REPLY_INTEGER;
    return is;
}

void lk_redis_script_spell_out(const lk_redis *r, lk_redis_command *a, lk_redis_script which)
{
    lk_redis_command_set(a, 0, "EVAL");
    lk_redis_command_set(a, 1, r->script[which]);
}

void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, lk_redis_keys *keys,
                           const char *fourth)
{
    static const char *const counts[] = {"3", "4", "5"};
    const char *const mark = r->recovery.mark;
    const char *const sha = lk_redis_sha(r, which);
    a->argc = 0;
    LK_REDIS_ARGUMENTS(a, "EVALSHA", sha, counts[(fourth != NULL) + (mark != NULL)], keys->lock,
                       lk_redis_keys_companion(keys, LK_REDIS_QUEUE), keys->fence);
    if (sha[0] == '\0')
        lk_redis_script_spell_out(r, a, which);
    if (fourth != NULL)
        lk_redis_command_text(a, fourth);
    if (mark != NULL)
        lk_redis_command_text(a, mark);
}

static void hash_told_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

/* The next one's; false: it can't be asked for now. */
static bool ask_hash_locked(lk_redis *r, size_t which) LK_REDIS_LOCKED
{
    const lk_redis_command a = LK_REDIS_COMMAND("SCRIPT", "LOAD", r->script[which]);
    return lk_redis_submit_command_locked(r->nodes->commands, &a, hash_told_locked, r);
}

static void hash_told_locked(void *context, redisReply *reply)
{
    lk_redis *const r = context;
    size_t which = LK_REDIS_SCRIPTS_LOADED;
    while (r->sha[which][0] != '\0')
        which++;
    r->more_asked = reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len == LK_REDIS_HASH_LEN;
    if (!r->more_asked)
        return;
    memcpy(r->sha[which], reply->str, LK_REDIS_HASH_LEN + 1);
    if (which + 1 == LK_REDIS_SCRIPT_COUNT)
        atomic_store_explicit(&r->more, true, memory_order_release);
    else
        r->more_asked = ask_hash_locked(r, which + 1);
}

void lk_redis_scripts_want(lk_redis *r)
{
    if (atomic_load_explicit(&r->more, memory_order_acquire))
        return;
    lk_redis_lock(&r->shared);
    if (!r->more_asked) {
        for (size_t i = LK_REDIS_SCRIPTS_LOADED; i < LK_REDIS_SCRIPT_COUNT; i++)
            r->sha[i][0] = '\0';
        r->more_asked = ask_hash_locked(r, LK_REDIS_SCRIPTS_LOADED);
    }
    lk_redis_unlock(&r->shared);
}

lk_redis_outcome lk_redis_ask_script(lk_redis_node *node, lk_redis_call *call, lk_redis_script which,
                                     lk_redis_command *a, locker_error *err)
{
    lk_redis *const r = node->r;
    const int last = a->argc;
    char least[LK_REDIS_FENCE_DIGITS + 1], life[LK_REDIS_LIFE_MAX];
    lk_redis_command_text(a, "");
    if (r->recovery.mark != NULL)
        lk_redis_command_text(a, "");
    for (bool whole = false;;) {
        /* before its least number, and its life of the server */
        call->only = atomic_load_explicit(&node->commands->connection, memory_order_acquire);
        lk_redis_command_set(a, last, lk_redis_fence_least_text(&node->fences, least));
        if (r->recovery.mark != NULL) {
            lk_redis_lock(&r->shared);
            memcpy(life, r->recovery.life, sizeof life);
            lk_redis_unlock(&r->shared);
            lk_redis_command_set(a, last + 1, life);
        }
        const lk_redis_outcome outcome = lk_redis_ask(node->commands, call, a, 1, err);
        if (outcome == LK_REDIS_CALL_STALE)
            continue;
        if (outcome != LK_REDIS_CALL_ANSWERED ||
            lk_redis_reply_fault(call->reply) != LK_REDIS_FAULT_NOSCRIPT || whole)
            return outcome;
        freeReplyObject(call->reply);
        lk_redis_script_spell_out(r, a, which);
        whole = true;
    }
}

/* ------------------------------------------------------------------ commands over many locks ---- */

char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more)
{
    out = lk_redis_put_line(out, '*', 3 + keys + more);
    out = lk_redis_put_text(out, whole ? "EVAL" : "EVALSHA");
    out = lk_redis_put_text(out, script);
    return lk_redis_put_number(out, keys);
}

char *lk_redis_batch_keys(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out)
{
    const lk_redis_prefix *const prefix = &r->set.prefix;
    const size_t len = prefix->len + claim->key_len;
    char *const lock = lk_redis_put_line(out, '$', len);
    memcpy(lock, prefix->text, prefix->len);
    memcpy(lock + prefix->len, claim->key, claim->key_len);
    lk_redis_name name = {
        .lock = lock, .len = len, .space = prefix->len, .form = lk_redis_form_of(lock, len)};
    if (name.form == LK_REDIS_TAGGED)
        name.tag = lk_redis_slot_tag(&r->slots, lk_redis_claim_of(claim)->slot);
    return lk_redis_companion_argument(&name, which, lk_redis_put_end(lock + len));
}
