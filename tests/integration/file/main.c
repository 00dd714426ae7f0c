/* main.c: the groups of the file driver's tests, and what they share; see file_test.h. */
#include "file_test.h"
#include "holding.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "puppet.h"

extern const locker_driver lk_file_driver;

int lk_place_setup(void **state)
{
    lk_place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    lk_clock_go(0);
    lk_private_directory(place->base);
    snprintf(place->locks, sizeof(place->locks), "%s/locks", place->base);
    snprintf(place->uri, sizeof(place->uri), "file://%s", place->locks);
    place->l = lk_place_open(place);
    *state = place;
    return 0;
}

int lk_place_teardown(void **state)
{
    lk_place *place = *state;
    locker_close(place->l);
    lk_remove_directory(place->base);
    free(place);
    return 0;
}

locker *lk_place_open(const lk_place *place)
{
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    o.uri = place->uri;
    o.clock = lk_clock();
    locker *l;
    locker_error err;
    assert_ok(locker_open_driver(&lk_file_driver, &o, &l, &err), err);
    return l;
}

const char *lk_place_file(const lk_place *place, const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", place->locks, name);
    return path;
}

uint64_t lk_place_token(const lk_place *place, const char *key)
{
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(place->l, key, NULL, &held, &err), err);
    uint64_t token = locker_handle_token(held);
    lk_give(held);
    return token;
}

pid_t lk_fork_idle(void)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    static const lk_role roles[] = {LK_PUPPET_ROLE,
                                    {"forker", lk_forker_play},
                                    {"ghost", lk_ghost_play},
                                    {"wanderer", lk_wanderer_play},
                                    {"stormer", lk_stormer_play},
                                    {"sweeper", lk_sweeper_play},
                                    {"about", lk_about_play},
                                    {"edge", lk_edge_play},
                                    {"member", lk_member_play},
                                    {NULL, NULL}};
    static const lk_group *const groups[] = {&lk_text,  &lk_trust,   &lk_breaking, &lk_crash,
                                             &lk_queue, &lk_races,   &lk_removal,  &lk_sharing,
                                             &lk_edges, &lk_members, &lk_many,     NULL};
    return lk_run_group(argc, argv, groups, roles);
}
