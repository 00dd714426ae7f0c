/* sizes.c: a program that package.sh compiles with an older and with a later release's structs, and runs with
 * the library as it is. LATER: the last member of locker_lock_options is one that the library doesn't
 * know. */
#include <stdint.h>
#include <stdio.h>

#include <locker/locker.h>

#define CHECK(what)                                                                                          \
    if (!(what)) {                                                                                           \
        fprintf(stderr, "sizes: %s: %s\n", #what, err.text);                                                 \
        return 1;                                                                                            \
    }

enum { GUARD = 0x5A5A5A5A };

int main(int argc, char **argv)
{
    locker_options how = LOCKER_OPTIONS_INIT;
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_break_options whom = LOCKER_BREAK_OPTIONS_INIT;
    struct {
        locker_info info;
        uint64_t guard;
    } found = {LOCKER_INFO_INIT, GUARD};
    struct {
        locker_statistics stats;
        uint64_t guard;
    } counted = {LOCKER_STATISTICS_INIT, GUARD};
    locker_handle *held = NULL;
    locker_error err = {LOCKER_OK, 0, ""};
    locker *l = NULL;
    CHECK(argc == 2 && locker_open(argv[1], &how, &l, &err) == LOCKER_OK)
    o.wait_ms = 0;
    CHECK(locker_lock(l, "k", &o, &held, &err) == LOCKER_OK)
    CHECK(locker_show(l, "k", &found.info, &err) == LOCKER_OK && found.info.held && found.guard == GUARD)
    locker_info_clear(&found.info);
    CHECK(!found.info.held && found.guard == GUARD)
    CHECK(locker_stats(l, &counted.stats) == LOCKER_OK && counted.stats.acquired == 1 &&
          counted.guard == GUARD)
    whom.token = locker_handle_token(held);
    CHECK(locker_break(l, "k", &whom, &found.info, &err) == LOCKER_OK && found.guard == GUARD)
    locker_info_clear(&found.info);
    locker_handle_free(held);
#ifdef LATER
    o.later = 1;
    CHECK(locker_lock(l, "k", &o, &held, &err) == LOCKER_CONFIG)
#endif
    CHECK(locker_close(l) == LOCKER_OK)
    return 0;
}
