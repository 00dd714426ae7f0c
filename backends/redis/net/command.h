/* command.h: building commands, argument by argument: no text is ever parsed by the server as a format. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_REDIS_COMMAND_MAX = 16 /* arguments */ };

/* One command under construction; it points to its caller's strings. */
typedef struct {
    int argc;
    const char *argv[LK_REDIS_COMMAND_MAX];
    size_t len[LK_REDIS_COMMAND_MAX];
} lk_redis_command;

void lk_redis_command_add(lk_redis_command *a, const char *text, size_t len);
void lk_redis_command_text(lk_redis_command *a, const char *text);
/* Room for the command in the protocol's form, and writing it there; answers its end. */
size_t lk_redis_command_room(const lk_redis_command *a);
char *lk_redis_command_put(const lk_redis_command *a, char *out);
/* A finished command in the protocol's form: free with free(). False when memory ran out. */
bool lk_redis_command_format(const lk_redis_command *a, char **bytes, size_t *len);

/* A number as text, ended by a NUL; answers its length. */
size_t lk_redis_number_text(char *out, uint64_t n);
/* The pieces of the protocol's form, each answering its end: a line with a kind and a number ('*': so many arguments
 * follow, '$': an argument of so many bytes), the end of an argument, and arguments as a whole. */
char *lk_redis_put_line(char *out, char kind, size_t n);
char *lk_redis_put_end(char *out);
char *lk_redis_put_text(char *out, const char *text);
char *lk_redis_put_number(char *out, size_t n);
