/* replica.c: see replication.h: what arrives at a replica, and what its master hears of it. */
#include "replication.h"

#include <stdlib.h>

#include "call.h"
#include "request.h"
#include "stream.h"

/* A command of a unit. Its answer goes nowhere. */
static void apply_one(lk_sr_call call, const lk_sr_request *request)
{
    call.command = lk_sr_command_find(request->argv, request->argc);
    call.argv = request->argv;
    call.argc = request->argc;
    if (call.command == NULL)
        abort();
    lk_sr_call_run(&call);
    call.out->len = 0;
}

void lk_sr_apply(lk_sr_server *replica, lk_sr_text unit)
{
    lk_sr_request request = {.argv = NULL};
    lk_sr_text rest = unit;
    lk_sr_bytes out = {NULL, 0, 0};
    unsigned database = 0;
    char error[128];
    if (!replica->master.linked)
        return;
    const lk_sr_call call = {.server = replica, .out = &out, .database = &database};
    replica->applying = true;
    while (lk_sr_request_read(&request, rest, false, error, sizeof error) == LK_SR_REQUEST_WHOLE) {
        apply_one(call, &request);
        rest.data += request.used;
        rest.len -= request.used;
    }
    replica->applying = false;
    replica->offset += (int64_t)unit.len;
    lk_sr_request_free(&request);
    lk_sr_bytes_free(&out);
    lk_sr_resume(replica);
}

void lk_sr_acknowledge(lk_sr_link *link, int64_t offset)
{
    lk_sr_server *master = lk_sr_stream_confirm(link, offset);
    if (master == NULL)
        return;
    lk_sr_clients_confirmed(master);
    lk_sr_resume(master);
}
