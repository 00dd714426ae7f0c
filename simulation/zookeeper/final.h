/* final.h: the last step of a request: its transaction is applied, or it reads; and it is answered
 * (FinalRequestProcessor). */
#pragma once

#include "state.h"

/* Frees the call. */
void lk_simzk_final(lk_simzk_server *s, lk_simzk_call *call);
