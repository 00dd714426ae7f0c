/*
 * resolving.c: what the drivers ask the system's resolver. A thread that is inside the resolver at the moment of a fork leaves
 * the resolver's locks taken for the child, and AI_ADDRCONFIG takes one of them even for an address. So addresses don't go to
 * the resolver, and a fork's child may open a locker by one. ZooKeeper is not among them: its client library resolves
 * addresses with AI_ADDRCONFIG itself.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

typedef int resolve(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* How often the resolver was asked for a host, and how often for the configured addresses of this machine. */
static atomic_int lookups, configured;
/* True in a child, where a lookup may never end: its parent may have been inside one. Set before any thread is there. */
static bool forked;

/* Of the whole program, exported to the modules that it loads (CMakeLists.txt), instead of the C library's. */
__attribute__((visibility("default"))) int getaddrinfo(const char *restrict name,
                                                       const char *restrict service,
                                                       const struct addrinfo *restrict hints,
                                                       struct addrinfo **restrict found)
{
    resolve *real;
    const int flags = hints != NULL ? hints->ai_flags : 0;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if ((flags & AI_ADDRCONFIG) != 0)
        configured++;
    if ((flags & AI_NUMERICHOST) != 0)
        return real(name, service, hints, found);
    lookups++;
    if (forked)
        _exit(2);
    return strcmp(name, "name.test") == 0 ? real("127.0.0.1", service, hints, found)
                                          : real(name, service, hints, found);
}

/* Nothing listens at port 1. */
static const char *const addresses[] = {
    "redis://127.0.0.1:1,[::1]:1/0", "redis+sentinel://127.0.0.1:1,[::1]:1/name",
    "redis+cluster://127.0.0.1:1,[::1]:1", "etcd://127.0.0.1:1,[::1]:1?connect_timeout=200ms"};
static const char *const names[] = {"redis://name.test:1/0", "redis+sentinel://name.test:1/name",
                                    "redis+cluster://name.test:1",
                                    "etcd://name.test:1?connect_timeout=200ms"};

/* False: this build does not have the driver. */
static bool open_in_vain(const char *uri)
{
    locker *l = NULL;
    locker_error err;
    const locker_status status = locker_open(uri, NULL, &l, &err);
    assert_null(l);
    if (status != LOCKER_UNSUPPORTED)
        assert_status(LOCKER_UNAVAILABLE, status, err);
    return status != LOCKER_UNSUPPORTED;
}

static void addresses_are_not_looked_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        const pid_t child = fork();
        int status = 0;
        assert_true(child >= 0);
        if (child == 0) {
            forked = true;
            _exit(open_in_vain(addresses[i]) && configured > 0 ? 1 : 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            test_fails("%s: %s", addresses[i],
                       WEXITSTATUS(status) == 2 ? "it was looked up" : "AI_ADDRCONFIG was asked for");
    }
}

static void names_are_looked_up_plainly(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lookups = 0;
        if (open_in_vain(names[i]))
            assert_int_not_equal(lookups, 0);
    }
    assert_int_equal(configured, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_not_looked_up),
        cmocka_unit_test(names_are_looked_up_plainly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
