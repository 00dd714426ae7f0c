/*
 * proxying.h: proxies in tests: what a proxy reports as an error, or never meets, fails the test.
 */
#pragma once

#include "proxy/etcd.h"
#include "proxy/proxy.h"
#include "proxy/redis.h"
#include "proxy/zookeeper.h"

/** Starts a proxy to 127.0.0.1:port. */
lk_proxy *lk_proxy_begin(const lk_protocol *protocol, int port);

/** Waits until so many harms were done since its start. */
void lk_proxy_await_harm(lk_proxy *proxy, unsigned count);

/** Waits until `more` requests of that kind were passed to the server since lk_proxy_passed(). */
typedef struct {
    lk_proxy *proxy;
    const char *kind;
    unsigned count;
} lk_passed;
lk_passed lk_proxy_passed(lk_proxy *proxy, const char *kind);
void lk_proxy_await_passed(lk_passed since, unsigned more);
