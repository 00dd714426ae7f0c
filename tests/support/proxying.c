/* proxying.c: proxies in tests; see proxying.h. */
#include "proxying.h"

#include <errno.h>
#include <string.h>

#include "expect.h"

lk_proxy *lk_proxy_begin(const lk_protocol *protocol, int port)
{
    lk_proxy *proxy = lk_proxy_open(protocol, port);
    if (proxy == NULL || !lk_proxy_start(proxy))
        test_fails("can't start a proxy: %s", strerror(errno));
    return proxy;
}

static bool is_harmed(void *context)
{
    const lk_passed *wanted = context;
    return lk_proxy_harmed(wanted->proxy) >= wanted->count;
}

void lk_proxy_await_harm(lk_proxy *proxy, unsigned count)
{
    lk_passed wanted = {proxy, NULL, count};
    lk_require(is_harmed, &wanted, "the proxy should meet the request whose reply it harms");
}

lk_passed lk_proxy_passed(lk_proxy *proxy, const char *kind)
{
    return (lk_passed){proxy, kind, lk_proxy_requests(proxy, kind)};
}

static bool has_passed(void *context)
{
    const lk_passed *wanted = context;
    return lk_proxy_requests(wanted->proxy, wanted->kind) >= wanted->count;
}

void lk_proxy_await_passed(lk_passed since, unsigned more)
{
    since.count += more;
    lk_require(has_passed, &since, "the proxy should see that many requests");
}
