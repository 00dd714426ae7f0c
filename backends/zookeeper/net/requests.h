/* requests.h: the table of requests that await their answer. */
#pragma once

#include "net.h"

/* A read with a watch of the client library's. */
lk_zk_request *lk_zk_get_watched_locked(lk_zk_net *net, const char *path, watcher_fn watch,
                                        void *watch_context, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* `results` must last until `done` is called; NULL: nobody wants them, and there are two at most. */
lk_zk_request *lk_zk_multi_locked(lk_zk_net *net, const zoo_op_t *ops, zoo_op_result_t *results, size_t count,
                                  lk_zk_done_fn done, void *context) LK_REQUIRES(*net);
/* Nobody wants its answer any more. */
void lk_zk_request_forget_locked(lk_zk_request *request);
/* The caller goes: answers to its requests find nobody. */
void lk_zk_requests_forget_locked(lk_zk_net *net, const lk_zk_call *call) LK_REQUIRES(*net);
/* Fail all that still awaits an answer: the handle was closed. */
void lk_zk_requests_fail_locked(lk_zk_net *net) LK_REQUIRES(*net);
void lk_zk_requests_free(lk_zk_net *net);
