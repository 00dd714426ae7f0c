/* connection.h: a client's connection to a server: what it has logged in as, what it has sent that isn't read yet, and
 * the answers that wait for it. It lives until the client has let go of it, and no request holds it. */
#pragma once

#include "../lists.h"
#include "arena.h"

struct lk_simzk_connection {
    lk_list link; /* among its server's, while that has it open */
    lk_simzk *z;
    int server;
    unsigned refs;
    bool open;        /* at the server */
    bool greeted;     /* its hello has been read */
    bool established; /* welcomed: requests are read */
    lk_simzk_hello hello;
    int64_t session; /* 0: not known yet */
    int32_t timeout_ms;
    lk_simzk_acl ids;
    lk_simzk_arena arena; /* theirs */
    lk_list inputs;       /* not read yet; input.h */
    lk_list answers;
    void (*on_answer)(void *context, lk_simzk_connection *c);
    void *context;
};

/* An answer that is being made. */
typedef struct {
    lk_list link; /* in lk_simzk_connection.answers */
    lk_simzk_answer answer;
    lk_simzk_arena arena; /* what `answer` points to */
} lk_simzk_parcel;

lk_simzk_parcel *lk_simzk_parcel_new(lk_simzk_answer_kind kind);
/* Hands it over. One that the server has closed gets nothing. */
void lk_simzk_connection_put(lk_simzk_connection *c, lk_simzk_parcel *parcel);
lk_simzk_parcel *lk_simzk_connection_take(lk_simzk_connection *c);
/* The server's end. */
void lk_simzk_connection_close(lk_simzk_connection *c);
/* What a client logs in as. */
void lk_simzk_connection_add_id(lk_simzk_connection *c, const char *scheme, const char *id);
/* NULL is allowed. */
lk_simzk_connection *lk_simzk_connection_ref(lk_simzk_connection *c);
void lk_simzk_connection_unref(lk_simzk_connection *c);
