/* secret.c: secrets that stand in files: read when a locker is opened, and again by a driver before each login. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"

enum { SECRET_MAX = 1023, LINE_MAX_HERE = SECRET_MAX + 2 /* and the line's end */ };

/* What was read is a secret: its first line. One that would be cut is none. */
static locker_status take_line(char line[LINE_MAX_HERE + 1], size_t got, const char *name, const char *path,
                               char **secret, locker_error *err)
{
    const char *const end = memchr(line, '\n', got);
    size_t len = end != NULL ? (size_t)(end - line) : got;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    line[len] = '\0';
    if (len == 0)
        return lk_misconfigured(err, "%s %.200s is empty", name, path);
    if (len > SECRET_MAX)
        return lk_misconfigured(err, "the first line of %s %.200s has more than %d bytes; shorten it", name,
                                path, SECRET_MAX);
    if (strlen(line) < len)
        return lk_misconfigured(err, "the first line of %s %.200s has a NUL in it; write the secret as text",
                                name, path);
    *secret = strdup(line);
    return *secret != NULL ? LOCKER_OK : lk_config_no_memory(err);
}

/* From an open file. */
static locker_status read_file(lk_config *c, int fd, const char *name, const char *path, char **secret,
                               locker_error *err)
{
    char line[LINE_MAX_HERE + 1];
    size_t got = 0;
    ssize_t more = 1;
    locker_status status = lk_config_trust(c, fd, name, path, true, err);
    while (status == LOCKER_OK && got < LINE_MAX_HERE && more > 0) {
        more = read(fd, line + got, LINE_MAX_HERE - got);
        got += more > 0 ? (size_t)more : 0;
        if (more < 0 && errno == EINTR)
            more = 1;
    }
    if (status == LOCKER_OK)
        status = take_line(line, got, name, path, secret, err);
    explicit_bzero(line, sizeof line);
    return status;
}

/* The absolute path of a file that can be read again; NULL: it can't. A pipe cannot, and what stands below /dev and /proc may be
 * another file by then. Links stay: whoever changes a secret may change the link. */
static char *path_again(int fd, const char *path)
{
    struct stat st;
    char *whole = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    char *const here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    if (here == NULL || asprintf(&whole, "%s%s%s", here, path[0] == '/' ? "" : "/", path) < 0)
        whole = NULL;
    free(here);
    if (whole == NULL || (strncmp(whole, "/dev/", 5) != 0 && strncmp(whole, "/proc/", 6) != 0))
        return whole;
    free(whole);
    return NULL;
}

locker_status lk_secret_take(lk_config *c, const char *name, char **path, char **again, locker_error *err)
{
    char *secret = NULL;
    const int fd = open(*path, O_RDONLY | O_CLOEXEC); /* any descriptor: only read, and closed at once */
    if (fd < 0)                                       /* without a slash it may be the secret itself */
        return locker_error_set(err, LOCKER_CONFIG, errno, "cannot open %s %.200s: %s", name,
                                strchr(*path, '/') != NULL ? *path : "(a name without '/' is not shown)",
                                strerror(errno));
    const locker_status status = read_file(c, fd, name, *path, &secret, err);
    if (status == LOCKER_OK)
        *again = path_again(fd, *path);
    (void)close(fd);
    if (status != LOCKER_OK)
        return status;
    free(*path);
    *path = secret;
    return LOCKER_OK;
}

char *locker_secret_read(const char *file, locker_error *err)
{
    static const char name[] = "the secret file";
    lk_config c = {.driver = NULL}; /* for what is noticed about the file, which open has told */
    char *secret = NULL;
    struct stat st;
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* any descriptor: as above */
    if (fd < 0) {
        (void)locker_error_set(err, LOCKER_CONFIG, errno, "cannot open %s %.200s: %s", name, file,
                               strerror(errno));
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        (void)read_file(&c, fd, name, file, &secret, err);
    else
        (void)lk_misconfigured(err, "%s %.200s is no longer a regular file", name, file);
    (void)close(fd);
    lk_config_clear(&c);
    return secret;
}
