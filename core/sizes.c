/* sizes.c: the sizes that public structs have had. What a program or a driver was compiled with only grows at its end, and
 * ends on 8 bytes without padding, so what an older one lacks is never garbage. Who appends a member adds the new size
 * behind those that releases had, which stay. On 64-bit systems; elsewhere the sizes follow from the same members. */
#include <locker/instrument.h>

#if UINTPTR_MAX == UINT64_MAX

/* Sizes since 0.1. */
#define SIZE(type, last, since_0_1)                                                                          \
    _Static_assert(sizeof(type) == (since_0_1), #type " has a size that is not in sizes.c");                 \
    _Static_assert(sizeof(type) % 8 == 0 &&                                                                  \
                       offsetof(type, last) + sizeof(((const type *)0)->last) == sizeof(type),               \
                   #type " doesn't end on 8 bytes without padding")

/* What tells its size, and may grow. */
SIZE(locker_options, log_user, 64);
SIZE(locker_lock_options, label, 72);
SIZE(locker_info, queue_stride, 200);
SIZE(locker_break_options, owner, 24);
SIZE(locker_semantics, cost, 88);
SIZE(locker_driver_info, problem, 72);
SIZE(locker_statistics, hold, 816);
SIZE(locker_services, log, 72);
SIZE(locker_driver_config, ttl_ns, 112);
SIZE(locker_driver, decorator, 216);
SIZE(locker_clock, hooks, 48);
SIZE(locker_driver_options, clock, 32);

/* What core makes, and others only read through a pointer or with a stride. */
SIZE(locker_claim, retry_at, 104);
SIZE(locker_waiter, owner, 128);

/* What never grows: it has no size. */
SIZE(locker_error, text, 520);
SIZE(locker_parameter, help, 48);
SIZE(locker_value, text, 24);
SIZE(locker_host, name, 16);
SIZE(locker_histogram, bucket, 344);
SIZE(struct locker_clock_hooks, done, 24);
SIZE(struct locker_decorator, decorate, 8);

#endif
