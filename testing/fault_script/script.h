/* script.h: scripts of faults (locker/fault.h): adding, reading from text, and which fault acts on an
 * operation. The mock and the fault driver share it, linked into each; it sees the public headers alone and
 * takes no lock.
 *
 * Whoever owns a script guards it; all functions but lk_script_new() and lk_fault_op_name() need that. */
#pragma once

#include <locker/fault.h>

typedef struct lk_script lk_script;

/** An empty script; NULL: out of memory. */
lk_script *lk_script_new(void);

/** NULL is allowed. */
void lk_script_free(lk_script *script);

/** Forget all faults. */
void lk_script_clear(lk_script *script);

/** Add a copy of the fault at the end. INVALID (the text names what is wrong), NOMEM. */
locker_status lk_script_add(lk_script *script, const locker_fault *fault, locker_error *err);

/** Add what the text says (its form: locker_mock_script() in mock.h). All faults or, on failure, none.
 * INVALID, NOMEM. */
locker_status lk_script_parse(lk_script *script, const char *text, locker_error *err);

/** Show an operation to the script: counts it, and answers whether a fault acts on it, which *hit tells then;
 * its status is one that this operation can answer (LOCKER_OP_ANY's UNAVAILABLE has been translated).
 * hit->key is NULL. key NULL: the operation has none. */
bool lk_script_match(lk_script *script, locker_op op, const char *key, locker_fault *hit);

/** The index-th fault, in the order of adding, that has not acted as often as it says (one that acts for
 * ever: not at all), as text in the form that lk_script_parse() reads, with what is missing behind; false
 * past the last. */
bool lk_script_unused(const lk_script *script, size_t index, char *text, size_t size);

/** The name of an operation, as locker_mock_op_name() in mock.h. */
const char *lk_fault_op_name(locker_op op);
