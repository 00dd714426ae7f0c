/* narrow.c: the file driver alone, for a build with 32 bits (script/check narrow): shared locks and permits lie at bytes of a file that
 * only 64 bits reach. */
#include <locker/driver.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slots.h"

extern const locker_driver lk_file_driver;

static void wake(const locker_services *svc, locker_claim *claim)
{
    (void)svc;
    (void)claim;
}

static void lease_lost(const locker_services *svc, locker_claim *grant, const char *why)
{
    (void)svc;
    (void)grant;
    (void)why;
}

static void attend(const locker_services *svc)
{
    (void)svc;
}

static void log_line(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    va_list arguments;
    (void)svc;
    (void)level;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static int64_t now(void *unused)
{
    struct timespec t;
    (void)unused;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

typedef struct {
    locker_claim claim;
    lk_file_claim data;
} attempt;

static void *self;

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "narrow: %s\n", what);
        exit(1);
    }
}

/* One try. */
static locker_status try_lock(attempt *a, const char *key, locker_mode mode, int32_t permits)
{
    locker_error err = {0};
    *a = (attempt){
        .claim = {.key = key, .key_len = strlen(key), .owner = "", .mode = mode, .permits = permits}};
    a->claim.data = &a->data;
    const locker_status status = lk_file_driver.acquire(self, &a->claim, &err);
    if (status != LOCKER_OK && status != LOCKER_BUSY)
        fprintf(stderr, "narrow: %s\n", err.text);
    return status;
}

static void give(attempt *a)
{
    locker_error err = {0};
    const locker_status status = lk_file_driver.release(self, &a->claim, LOCKER_NEVER, &err);
    check(status == LOCKER_OK, err.text);
}

int main(int argc, char **argv)
{
    static const locker_clock clock = {.size = sizeof clock, .now = now};
    static const locker_services services = {.size = sizeof services,
                                             .clock = &clock,
                                             .wake = wake,
                                             .lease_lost = lease_lost,
                                             .attend = attend,
                                             .log = log_line};
    static const locker_value values[2];
    static attempt one, two, three;
    const locker_driver_config config = {.size = sizeof config,
                                         .scheme = "file",
                                         .path = argc == 2 ? argv[1] : "/tmp/narrow",
                                         .name_space = "",
                                         .owner = "",
                                         .values = values};
    locker_error err = {0};
    check(lk_file_driver.open(&config, &services, &self, &err) == LOCKER_OK, err.text);
    check(try_lock(&one, "s", LOCKER_SHARED, 0) == LOCKER_OK &&
              try_lock(&two, "s", LOCKER_SHARED, 0) == LOCKER_OK,
          "two do not share a lock");
    check(try_lock(&three, "s", LOCKER_EXCLUSIVE, 0) == LOCKER_BUSY, "one has for itself what two share");
    give(&one);
    give(&two);
    check(try_lock(&one, "p", LOCKER_EXCLUSIVE, 2) == LOCKER_OK &&
              try_lock(&two, "p", LOCKER_EXCLUSIVE, 2) == LOCKER_OK,
          "two do not get the two permits");
    check(one.claim.slot != two.claim.slot, "two have one slot");
    check(try_lock(&three, "p", LOCKER_EXCLUSIVE, 2) == LOCKER_BUSY, "there are three of two permits");
    give(&one);
    give(&two);
    check(try_lock(&one, "x", LOCKER_EXCLUSIVE, 0) == LOCKER_OK &&
              try_lock(&two, "x", LOCKER_EXCLUSIVE, 0) == LOCKER_BUSY,
          "two have a lock for themselves");
    give(&one);
    lk_file_driver.close(self);
    printf("narrow: %zu bits: shared locks and permits work\n", 8 * sizeof(void *));
    return 0;
}
