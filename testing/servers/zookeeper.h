/* zookeeper.h: ZooKeeper servers, alone or as an ensemble of three (ensemble.h). */
#pragma once

#include "servers/ensemble.h"

enum { LK_ZOOKEEPER_TICK_MS = 200 };

/** The users that a server with SASL knows: name, password. */
#define LK_SASL_USER     "shop"
#define LK_SASL_PASSWORD "sesame-4711"
#define LK_SASL_OTHER    "other"
#define LK_SASL_OTHERS   "other-0815"

/** The options that it is started with are those of the Java machine. */
extern const lk_server_kind lk_server_zookeeper;

/** Has a server with SASL know LK_SASL_USER by another password from its next start on. */
bool lk_zookeeper_set_password(lk_server *server, const char *password);

/** Whether it serves now, as "standalone", "leader" or "follower". */
bool lk_zookeeper_is(const lk_server *server, const char *mode);
