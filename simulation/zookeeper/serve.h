/* serve.h: what a server does for its clients as soon as it reads what they send: it lets them in, logs them in, and takes
 * their requests (ZooKeeperServer). */
#pragma once

#include "state.h"

/* What a client has sent that isn't read yet. */
typedef struct {
    lk_list link; /* in lk_simzk_connection.inputs */
    lk_simzk_body *body;
} lk_simzk_input;

/* Read whatever can be. */
void lk_simzk_serve(lk_simzk_server *s);
