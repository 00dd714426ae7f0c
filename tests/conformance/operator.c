/* operator.c: takes locks away as an operator would, where a service has no other client: by breaking them.
 */
#include "conformance.h"

/* Who holds what lk_operator_replace() took; NULL: nobody. */
static locker *rival;
static locker_handle *taken;

static void give_up(void)
{
    locker_handle_free(taken);
    taken = NULL;
    assert_int_equal(locker_close(rival), LOCKER_OK);
    rival = NULL;
}

void lk_operator_lose(const struct lk_backend *backend, void *service, const char *key)
{
    char uri[256];
    locker_error err;
    locker *l;

    backend->uri(service, uri, sizeof uri);
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    assert_ok(locker_break(l, key, NULL, &err), err);
    assert_int_equal(locker_close(l), LOCKER_OK);
    if (rival != NULL)
        give_up();
}

void lk_operator_replace(const struct lk_backend *backend, void *service, const char *key)
{
    char uri[256];
    locker_error err;

    backend->uri(service, uri, sizeof uri);
    assert_null(rival);
    assert_ok(locker_open(uri, NULL, &rival, &err), err);
    assert_ok(locker_break(rival, key, NULL, &err), err);
    assert_ok(locker_try_lock(rival, key, NULL, &taken, &err), err);
}
