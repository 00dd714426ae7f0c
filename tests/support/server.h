/*
 * server.h: a real redis-server of a test's own: a private port and Unix socket, a private directory, started
 * and stopped by process id, and gone when the test's process ends. The test commands it by a connection of
 * its own, as a user `admin` that keeps its rights whatever is done to the default user.
 */
#ifndef LK_TEST_SERVER_H
#define LK_TEST_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct redisContext;

enum { LK_SERVER_OPTIONS_MAX = 24 };

struct lk_server {
    pid_t pid;                                  /* 0 while it isn't running */
    int port;                                   /* the same over restarts */
    bool frozen;                                /* stopped by SIGSTOP */
    char directory[64];                         /* holds the data, the socket and the log */
    char socket[96];                            /* path of its Unix socket */
    const char *options[LK_SERVER_OPTIONS_MAX]; /* ended by NULL; static text */
    struct redisContext *admin;                 /* our own connection; NULL while there is none */
};

/** Starts a server with further command line options (static text, ended by NULL; NULL: none), and waits
 * until it serves. Fails the test when it can't. Call it from the test's main thread: the server dies with
 * the thread that started it. */
struct lk_server *lk_server_start(const char *const *options);

/** Stops it, removes its directory, frees it. NULL is allowed. */
void lk_server_free(struct lk_server *server);

/** kill -9 and wait. Its data stays in the directory. */
void lk_server_kill(struct lk_server *server);

/** Starts it again on the same port, after lk_server_kill(). keep_data false: with an empty directory. */
void lk_server_launch(struct lk_server *server, bool keep_data);

/** SIGSTOP, and wait until it has stopped; SIGCONT. */
void lk_server_freeze(struct lk_server *server);
void lk_server_thaw(struct lk_server *server);

/** Sends a command, in hiredis' format, whose reply is of no interest. This and those below fail the test
 * when there is no reply, or when it is an error. */
void lk_server_do(struct lk_server *server, const char *format, ...);

/** Sends a command and answers its integer, or of a list how long it is; -1 for any other reply. */
int64_t lk_server_integer(struct lk_server *server, const char *format, ...);

/** Sends a command and copies its string reply; false for a nil. */
bool lk_server_text(struct lk_server *server, char *text, size_t size, const char *format, ...);

/** A port that nobody uses, outside the range from which the kernel takes those of outgoing connections, so
 * that a client which tries a stopped server's port again never connects to itself. */
int lk_free_port(void);

#endif
