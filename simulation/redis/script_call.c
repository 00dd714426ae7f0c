/* script_call.c: a command that a script gives: what it may not do there, and running it. The order of the checks is Redis'. */

#include "call.h"
#include "stream.h"

static const char *no_right(lk_sr_right right)
{
    return right == LK_SR_NO_COMMAND ? "can't run this command or subcommand"
           : right == LK_SR_NO_KEY
               ? "can't access at least one of the keys mentioned in the command arguments"
               : "can't publish to the channel mentioned in the command";
}

/* Once a script has written, nothing stops it half-way. */
static const char *refused_write(const lk_sr_call *call)
{
    const lk_sr_server *server = call->server;
    if ((call->command->flags & LK_SR_WRITE) == 0 || server->script_writes)
        return NULL;
    if (lk_sr_is_replica(server))
        return LK_SR_READONLY;
    if ((server->faults & LK_SR_NO_DISK) != 0)
        return LK_SR_MISCONF;
    if (lk_sr_stream_lacks_replicas(server))
        return LK_SR_FEW;
    return NULL;
}

static bool refused(lk_sr_call *call)
{
    const lk_sr_server *server = call->server;
    const lk_sr_command *command = call->command;
    const char *why = NULL;
    if (command == NULL)
        why = "Unknown Redis command called from script";
    else if (!lk_sr_command_takes(command, call->argc))
        why = "Wrong number of args calling Redis command from script";
    else if ((command->flags & LK_SR_NO_SCRIPT) != 0)
        why = "This Redis command is not allowed from script";
    if (why == NULL) {
        const lk_sr_right right = lk_sr_user_may(call->client->login, command, call->argv, call->argc);
        if (right != LK_SR_ALLOWED) {
            lk_sr_reply_error(call->out, "The user executing the script %s", no_right(right));
            return true;
        }
        why = refused_write(call);
    }
    if (why == NULL && server->memory_most > 0 && server->memory_over && !server->script_writes &&
        (command->flags & LK_SR_NEEDS_MEMORY) != 0)
        why = LK_SR_OOM;
    if (why != NULL)
        lk_sr_reply_error(call->out, "%s", why);
    return why != NULL;
}

void lk_sr_script_call(lk_sr_call *call)
{
    call->command = lk_sr_command_find(call->argv, call->argc);
    if (refused(call))
        return;
    if ((call->command->flags & LK_SR_WRITE) != 0)
        call->server->script_writes = true;
    const char *why = lk_sr_refused_elsewhere(call);
    if (why != NULL) {
        lk_sr_reply_error(call->out, "%s", why);
        return;
    }
    lk_sr_call_run(call);
}
