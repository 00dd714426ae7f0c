/* streams.c: the numbers of HTTP/2 streams end at 2^31 (RFC 9113, section 5.1.1). Each request takes one, so a busy process reaches the
 * end within days. The test starts them near the end. */
#include <dlfcn.h>
#include <nghttp2/nghttp2.h>
#include <stdatomic.h>

#include "etcd_tests.h"

enum { LAST_OF_A_CONNECTION = 1 << 30, REQUESTS_LEFT = 20, CYCLES = 40 };

static _Atomic int32_t first_stream; /* of each new connection; 0: as the library begins */
static atomic_int connections;

typedef int new_session(nghttp2_session **, const nghttp2_session_callbacks *, void *,
                        const nghttp2_option *);

/* Exported to the driver's module (CMakeLists.txt), instead of the library's. */
__attribute__((visibility("default"))) int nghttp2_session_client_new2(
    nghttp2_session **session, const nghttp2_session_callbacks *callbacks, void *user,
    const nghttp2_option *option)
{
    void *const library = dlopen("libnghttp2.so.14", RTLD_NOW);
    new_session *real;
    int (*number_from)(nghttp2_session *, int32_t);
    *(void **)&real = dlsym(library, "nghttp2_session_client_new2");
    *(void **)&number_from = dlsym(library, "nghttp2_session_set_next_stream_id");
    const int rc = real(session, callbacks, user, option);
    atomic_fetch_add(&connections, 1);
    const int32_t first = atomic_load(&first_stream);
    return rc == 0 && first != 0 ? number_from(*session, first) : rc;
}

/* Locks are taken and released across the end, which needs a second connection; the lock that is held meanwhile is renewed. */
static void numbers_of_streams_that_end(void **state)
{
    const lk_env *env = *state;
    const int before = atomic_load(&connections);
    atomic_store(&first_stream, LAST_OF_A_CONNECTION - 2 * REQUESTS_LEFT + 1);
    locker *l = lk_open_at(env->etcd, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "held");
    for (int i = 0; i < CYCLES; i++)
        lk_give(lk_take(l, "job"));
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_true(atomic_load(&connections) > before + 1);
    lk_give(held);
    lk_close_locker(l);
    atomic_store(&first_stream, 0);
}

static const struct CMUnitTest tests[] = {server_test(numbers_of_streams_that_end)};

const lk_group lk_streams = {"streams", tests, sizeof tests / sizeof tests[0], NULL, NULL};
