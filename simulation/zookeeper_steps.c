/* zookeeper_steps.c: the steps of models/queue.pml that are seen at simulated ZooKeeper servers, and on the way to them. What servers have carried out is read off their histories: a transaction is told once, when
 * the first server that serves has it. What is said between them and clients is told when it is sent, when it arrives, and when the
 * client has read it. tool/zookeeper_steps.py puts this together. */
#include "zookeeper_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run.h"
#include "steps.h"
#include "zookeeper/state.h"

enum { LIST_BYTES = 8192 };

static struct {
    int64_t told;   /* the last transaction that was */
    uint64_t marks; /* so many answers were */
} steps;

/* A place of ours in a queue. */
static bool is_place(const char *path)
{
    const char *const name = path != NULL ? strrchr(path, '/') : NULL;
    return name != NULL && strncmp(name, "/_c_", 4) == 0;
}

/* ------------------------------------------------------------------ what is carried out ---- */

static void tell_change(const lk_simzk_txn *txn, const char *what, const char *path)
{
    lk_sim_step("txn %" PRId64 " %" PRIx64 " %d %s %s", txn->zxid, (uint64_t)txn->session, (int)txn->xid,
                what, path);
}

static void tell_txn(const lk_simzk_txn *txn)
{
    if (lk_simzk_txn_failed(txn)) {
        tell_change(txn, "refused", "-");
        return;
    }
    for (size_t i = 0; i < txn->count; i++) {
        const lk_simzk_change *const change = &txn->changes[i];
        if (change->kind == LK_SIMZK_TXN_CREATE_SESSION)
            tell_change(txn, "begins", "-");
        else if (change->kind == LK_SIMZK_TXN_CREATE && is_place(change->path))
            tell_change(txn, "creates", change->path);
        else if (change->kind == LK_SIMZK_TXN_DELETE && is_place(change->path))
            tell_change(txn, "deletes", change->path);
        else if (change->kind == LK_SIMZK_TXN_ERROR)
            tell_change(txn, "refused", "-");
        for (size_t k = 0; change->kind == LK_SIMZK_TXN_CLOSE_SESSION && k < change->paths.count; k++)
            if (is_place(change->paths.items[k]))
                tell_change(txn, "ends", change->paths.items[k]);
        if (change->kind == LK_SIMZK_TXN_CLOSE_SESSION)
            tell_change(txn, "ends", "-");
    }
}

static void settled(const lk_sim_zookeeper *zookeeper)
{
    for (int i = 0; i < zookeeper->count; i++) {
        if (!lk_simzk_serves(zookeeper->ensemble, i))
            continue;
        const lk_simzk_history *const history = &zookeeper->ensemble->servers[i].tree.history;
        for (size_t at = lk_simzk_history_until(history, steps.told); at < history->count; at++) {
            tell_txn(history->items[at]);
            steps.told = history->items[at]->zxid;
        }
    }
}

/* ------------------------------------------------------------------ what is said ---- */

static void sent(uint64_t number)
{
    lk_sim_step("sent %" PRIu64, number);
}

static void has_read(uint64_t mark)
{
    lk_sim_step("read %" PRIu64, mark);
}

static const char *word_of(lk_simzk_kind kind, bool watches)
{
    switch (kind) {
    case LK_SIMZK_CREATE:
    case LK_SIMZK_CREATE2:
        return "create";
    case LK_SIMZK_DELETE:
        return "delete";
    case LK_SIMZK_LIST:
        return "list";
    case LK_SIMZK_GET:
        return watches ? "watch" : "get";
    default:
        return "other";
    }
}

static void asked(lk_sim_connection *connection, int64_t session, const lk_simzk_request *request)
{
    const lk_simzk_op *const op = &request->op;
    if (op->kind == LK_SIMZK_LIST || is_place(op->path))
        lk_sim_step("asked %d %" PRIx64 " %d %" PRIu64 " %s %s", lk_sim_connection_process(connection)->pid,
                    (uint64_t)session, (int)request->xid, lk_sim_connection_sent_number(connection),
                    word_of(op->kind, op->watch), op->path);
    else
        lk_sim_step("asked %d %" PRIx64 " %d %" PRIu64 " other -", lk_sim_connection_process(connection)->pid,
                    (uint64_t)session, (int)request->xid, lk_sim_connection_sent_number(connection));
}

/* The names of a list, with a space before each. */
static void put_names(char text[LIST_BYTES], const lk_simzk_answer *answer)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < answer->names.count && n < LIST_BYTES - 128; i++)
        n += (size_t)snprintf(text + n, LIST_BYTES - n, " %s", answer->names.items[i]);
}

static void answered(lk_sim_connection *connection, int64_t session, const lk_simzk_answer *answer,
                     lk_simzk_kind kind, size_t end)
{
    const int pid = lk_sim_connection_process(connection)->pid;
    char names[LIST_BYTES] = "";
    steps.marks++;
    if (answer->kind == LK_SIMZK_WELCOME)
        lk_sim_step("welcomed %" PRIu64 " %d %" PRIx64 " %d", steps.marks, pid, (uint64_t)session,
                    (int)answer->timeout_ms);
    else if (answer->kind == LK_SIMZK_EVENT)
        lk_sim_step("told %" PRIu64 " %d %" PRIx64 " %d %s", steps.marks, pid, (uint64_t)session,
                    (int)answer->type, answer->path);
    else {
        if (kind == LK_SIMZK_LIST && answer->error == LK_SIMZK_OK)
            put_names(names, answer);
        lk_sim_step("answered %" PRIu64 " %d %" PRIx64 " %d %" PRId64 " %s %d%s", steps.marks, pid,
                    (uint64_t)session, (int)answer->xid, answer->zxid, word_of(kind, false),
                    (int)answer->error, names);
    }
    lk_sim_connection_mark(connection, end, steps.marks);
}

void lk_sim_zookeeper_steps_begin(lk_sim_zookeeper *zookeeper)
{
    memset(&steps, 0, sizeof steps);
    zookeeper->on_settled = settled;
    zookeeper->on_asked = asked;
    zookeeper->on_answered = answered;
    lk_sim_network_sent = sent;
    lk_sim_network_read = has_read;
}
