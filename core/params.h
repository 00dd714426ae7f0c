/* params.h: parameters, as tables. */
#pragma once

#include <locker/driver.h>

extern const locker_parameter lk_common_params[];
enum {
    LK_COMMON_TTL,
    LK_COMMON_NAMESPACE,
    LK_COMMON_OWNER,
    LK_COMMON_CONNECT,
    LK_COMMON_COMMAND,
    LK_COMMON_CLEANUP,
    LK_COMMON_PASSWORD_FILE,
    LK_COMMON_COUNT
};
locker_status lk_param_parse(const locker_parameter *param, const char *text, locker_value *value,
                             locker_error *err);

/** Whether a program's ttl_ms, 0 for the default, is a time at all: OK or INVALID. */
locker_status lk_ttl_check(int64_t ttl_ms, locker_error *err);
/** Whether the driver takes such a lease time; `wrong` is what it answers when not. */
locker_status lk_ttl_in_range(const locker_driver *driver, int64_t ttl_ms, locker_status wrong,
                              locker_error *err);
