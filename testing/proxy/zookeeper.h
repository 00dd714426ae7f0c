/* zookeeper.h: ZooKeeper's protocol, for a proxy. Events, which watches ask for, are unasked. */
#pragma once

#include "proxy/proxy.h"

extern const lk_protocol lk_proxy_zookeeper;

/** Kinds of requests: ZooKeeper's numbers. The first of a connection, which opens the session, has none. */
#define LK_ZKP_CONNECT          "0"
#define LK_ZKP_CREATE           "1"
#define LK_ZKP_DELETE           "2"
#define LK_ZKP_EXISTS           "3"
#define LK_ZKP_GET              "4"
#define LK_ZKP_SET              "5"
#define LK_ZKP_SYNC             "9"
#define LK_ZKP_LIST             "12" /* with or without the node's own data */
#define LK_ZKP_MULTI            "14"
#define LK_ZKP_CREATE2          "15"
#define LK_ZKP_CREATE_CONTAINER "19"

/** Makes of a reply that the session has expired, that the server is too busy, or that it wants a login by SASL; for
 * lk_proxy_forge(). */
size_t lk_proxy_zookeeper_expired(const lk_message *reply, char *out, size_t size);
size_t lk_proxy_zookeeper_throttled(const lk_message *reply, char *out, size_t size);
size_t lk_proxy_zookeeper_nameless(const lk_message *reply, char *out, size_t size);

/** The path in the request that was withheld last. */
void lk_proxy_zookeeper_withheld(lk_proxy *proxy, char *path, size_t size);
