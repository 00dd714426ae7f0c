/* flight.c: an operation on its way; see flight.h. */
#include <string.h>

#include "flight.h"

void lk_mock_cut_locked(locker_mock *m, lk_mock_host *host)
{
    if (host->cut)
        return;
    host->cut = true;
    if (host->svc == NULL)
        return;
    host->svc->suspect(host->svc, true);
    LK_EACH(const lk_mock_place, p, of_host, &host->claims)
        if (p->claim->mode == LOCKER_SHARED && p->answered)
            host->svc->awaited(host->svc, p->claim); /* it would not hear of it */
    for (lk_mock_entry *entry = m->entries; entry != NULL; entry = entry->next)
        lk_mock_admit_locked(m, entry); /* nobody waits for it in a queue */
}

lk_mock_flight lk_mock_take_off_locked(locker_mock *m, lk_mock_host *h, locker_op op, const char *key,
                                       locker_claim *claim, int64_t until)
{
    lk_mock_flight f = {.host = h, .claim = claim, .asked = lk_mock_now(m), .until = until, .arrives = true};
    f.call = (locker_mock_call){.op = op, .at_ms = f.asked / LK_MS, .together = 1};
    if (key != NULL) {
        const lk_mock_entry *entry = lk_mock_entry_locked(m, key, strlen(key));
        f.call.key = entry != NULL ? entry->key : "";
    }
    f.call.owner = claim != NULL ? lk_mock_intern_locked(m, claim->owner) : h->owner;
    if (h->cut) {
        f.arrives = false;
        f.refusal = LOCKER_UNAVAILABLE;
        return f;
    }
    f.call.scripted = lk_script_match(m->script, op, key, &f.fault);
    if (!f.call.scripted)
        return f;
    if (f.fault.what == LOCKER_FAULT_DISCONNECT)
        lk_mock_cut_locked(m, h);
    f.silent = f.fault.what == LOCKER_FAULT_LOSE_REQUEST || f.fault.what == LOCKER_FAULT_LOSE_REPLY ||
               (f.fault.what == LOCKER_FAULT_ANSWER && f.fault.status == LOCKER_TIMEOUT);
    f.arrives = f.fault.what == LOCKER_FAULT_LOSE_REPLY || f.fault.what == LOCKER_FAULT_LOSE_LOCK ||
                (f.fault.what == LOCKER_FAULT_ANSWER && f.fault.status == LOCKER_OK);
    f.refusal = f.fault.what == LOCKER_FAULT_ANSWER ? f.fault.status : LOCKER_UNAVAILABLE;
    return f;
}

locker_status lk_mock_land_locked(locker_mock *m, lk_mock_flight *f, locker_status status)
{
    f->call.status = status;
    f->call.took_ms = lk_mock_now(m) / LK_MS - f->call.at_ms;
    lk_mock_record_locked(m, &f->call);
    return status;
}

locker_status lk_mock_explain(const lk_mock_flight *f, locker_status status, locker_error *err)
{
    const char *name = lk_fault_op_name(f->call.op);
    if (status == LOCKER_OK || status == LOCKER_BUSY)
        return status;
    if (f->late)
        return locker_error_set(err, status, 0, "the mock did not answer in time (%s)", name);
    if (f->call.scripted && f->fault.what == LOCKER_FAULT_ANSWER)
        return locker_error_set(err, status, 0, "the mock's script answers %s (%s)",
                                locker_status_name(status), name);
    return locker_error_set(err, status, 0, "the mock is disconnected (%s)", name);
}
