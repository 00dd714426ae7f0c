/* argv.c: building commands, argument by argument: no text is ever parsed by the server as a format. */
#include <string.h>

#include "internal.h"

void lk_argv_add(struct lk_argv *a, const char *text, size_t len)
{
    if (a->argc >= LK_ARGV_MAX)
        return; /* no command of this driver is as long */
    a->argv[a->argc] = text;
    a->len[a->argc] = len;
    a->argc++;
}

void lk_argv_text(struct lk_argv *a, const char *text)
{
    lk_argv_add(a, text, strlen(text));
}

bool lk_argv_format(const struct lk_argv *a, char **bytes, size_t *len)
{
    /* An int or a long long, as hiredis' version has it. */
    const long long n = redisFormatCommandArgv(bytes, a->argc, (const char **)(uintptr_t)a->argv, a->len);
    if (n < 0)
        return false;
    *len = (size_t)n;
    return true;
}
