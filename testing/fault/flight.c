/* flight.c: asking the script what becomes of an operation; see internal.h. */
#include "internal.h"

lk_fault_flight lk_fault_take_off_locked(lk_fault_instance *f, locker_op op, const char *key)
{
    lk_fault_flight flight = {.asked = lk_fault_now(f), .arrives = true, .refusal = LOCKER_UNAVAILABLE};
    if (f->cut) {
        flight.arrives = false;
        return flight;
    }
    flight.hit = lk_script_match(f->script, op, key, &flight.fault);
    if (!flight.hit)
        return flight;
    f->acted++;
    switch (flight.fault.what) {
    case LOCKER_FAULT_ANSWER:
        flight.arrives = flight.fault.status == LOCKER_OK;
        flight.refusal = flight.fault.status;
        flight.silent = flight.fault.status == LOCKER_TIMEOUT;
        break;
    case LOCKER_FAULT_LOSE_REQUEST:
        flight.arrives = false;
        flight.silent = true;
        break;
    case LOCKER_FAULT_LOSE_REPLY:
        flight.silent = true;
        break;
    case LOCKER_FAULT_LOSE_LOCK:
        break;
    case LOCKER_FAULT_DISCONNECT:
        flight.arrives = false;
        f->cut = true;
        f->core->suspect(f->core, true);
        break;
    }
    return flight;
}
