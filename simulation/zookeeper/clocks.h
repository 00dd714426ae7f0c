/* clocks.h: each server's own clock. */
#pragma once

#include "state.h"

/* ms of that server's clock. */
int64_t lk_simzk_clock_ms(const lk_simzk_server *s);
/* When its clock has that time; INT64_MAX stays. */
int64_t lk_simzk_clock_when(const lk_simzk_server *s, int64_t ms);
