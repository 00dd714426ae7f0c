/*
 * shelf.c: a driver's module that opens nothing, and says so: sound as it is, and wrong in one way with a
 * definition of CMakeLists.txt's.
 */
#include <stdlib.h>

#include <locker/driver.h>

#ifndef SHELF_ABI
#define SHELF_ABI LOCKER_DRIVER_ABI
#endif
#ifndef SHELF_SCHEME
#define SHELF_SCHEME "shelf"
#endif
#ifndef SHELF_ENTRY
#define SHELF_ENTRY locker_module
#endif

#ifdef SHELF_ABORTS
__attribute__((constructor)) static void begin(void)
{
    abort();
}
#endif

static locker_status shelf_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                locker_error *err)
{
    (void)config;
    (void)svc;
    *self = NULL;
#ifdef SHELF_NEEDS
    extern int shelf_absent(void); /* of a library that is not there when the module is loaded */
    (void)shelf_absent();
#endif
    return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "the shelf is empty");
}

static void shelf_end(void *self)
{
    (void)self;
}

static locker_status shelf_acquire(void *self, locker_claim *claim, locker_error *err)
{
    (void)self;
    (void)claim;
    return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "the shelf is empty");
}

static void shelf_withdraw(void *self, locker_claim *claim)
{
    (void)self;
    (void)claim;
}

static locker_status shelf_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    (void)until;
    return shelf_acquire(self, grant, err);
}

static locker_status shelf_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                                locker_error *err)
{
    (void)key;
    (void)key_len;
    (void)info;
    return shelf_release(self, NULL, until, err);
}

static locker_status shelf_ping(void *self, int64_t until, locker_error *err)
{
    return shelf_release(self, NULL, until, err);
}

static const char *const schemes[] = {SHELF_SCHEME, NULL};
static const locker_parameter params[] = {
    {"height", LOCKER_PARAM_NUMBER, "3", 1, 9, "boards"},
    {"where", LOCKER_PARAM_PATH, NULL, 0, 0, "the wall"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};
static const locker_semantics semantics = {.size = sizeof(locker_semantics),
                                           .driver = "shelf",
                                           .scope = LOCKER_SCOPE_HOST,
                                           .fairness = LOCKER_FAIR_GLOBAL,
                                           .tokens_persist = true,
                                           .holder_dies = "Nothing.",
                                           .holder_stalls = "Nothing.",
                                           .cut_off = "Nothing.",
                                           .service_restarts = "Nothing.",
                                           .failover = "Nothing.",
                                           .token = "None.",
                                           .cost = "None."};

static const locker_driver shelf = {.abi = SHELF_ABI,
                                    .size = sizeof(locker_driver),
                                    .name = "shelf",
                                    .schemes = schemes,
                                    .example = "shelf:",
                                    .params = params,
                                    .semantics = &semantics,
                                    .open = shelf_open,
                                    .close = shelf_end,
                                    .acquire = shelf_acquire,
                                    .withdraw = shelf_withdraw,
                                    .release = shelf_release,
                                    .show = shelf_show,
                                    .ping = shelf_ping};

LOCKER_API extern const locker_driver *const SHELF_ENTRY;
const locker_driver *const SHELF_ENTRY = &shelf;
