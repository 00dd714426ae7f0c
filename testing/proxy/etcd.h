/* etcd.h: etcd's protocol, for a proxy: a message is a frame of HTTP/2. A request is the frame with its message, a reply the first
 * frame that answers it. What a watch tells is a reply, too. */
#pragma once

#include "proxy/proxy.h"

extern const lk_protocol lk_proxy_etcd;

/** Answers to requests: one may have been carried out, or not; it was not, as nobody has logged in. */
lk_forge lk_proxy_etcd_unavailable, lk_proxy_etcd_nameless;

/** Kinds of requests, by what the etcd driver makes of them. */
#define LK_EP_GRANT  "grant"  /* a lease */
#define LK_EP_REVOKE "revoke" /* a lease */
#define LK_EP_ENTER  "enter"  /* a transaction that puts a key: a place in a queue, or a try */
#define LK_EP_TAKE   "take"   /* ... that puts a permit */
#define LK_EP_LOOK   "look"   /* ... that reads, if a key is there */
#define LK_EP_ORDER  "order"  /* ... and is no read alone, so servers order it as a write */
#define LK_EP_MEMBER "member" /* which version a member is of, or which members there are */
#define LK_EP_DELETE "delete" /* ... that deletes, and puts nothing */
#define LK_EP_MOVE   "move"   /* ... that puts keys to another lease */
#define LK_EP_WATCH  "watch"  /* a watch on a key */
#define LK_EP_IGNORE "ignore" /* ... that isn't wanted any more */
