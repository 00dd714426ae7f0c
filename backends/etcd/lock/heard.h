/* heard.h: what each answer is looked at for. */
#pragma once

#include "instance.h"

/* An answer has come: one that says nothing may be a reason to go to another member. */
void lk_etcd_heard_locked(lk_etcd *e, const lk_etcd_reply *reply) LK_REQUIRES(*e->net);
