/* tls.c: TLS: the files that it needs, and what OpenSSL says; the handshake is in blocking_connect.c. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls_sasl.h"

static locker_status check_file(const char *name, const char *path, locker_error *err)
{
    struct stat status;
    if (path == NULL)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "tls=on needs %s: TLS for ZooKeeper takes a file of authorities (tls_ca) and "
                                "the client's certificate and key (tls_cert, tls_key)",
                                name);
    if (strchr(path, ',') != NULL)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "the path of %s, '%s', has a ',', which ZooKeeper's client library can't "
                                "take; give the file another name",
                                name, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int why = fd < 0 ? errno : 0;
    const bool is_file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (fd >= 0)
        close(fd);
    if (is_file)
        return LOCKER_OK;
    return locker_error_set(err, LOCKER_CONFIG, why, "can't read %s, '%s': %s", name, path,
                            why != 0 ? strerror(why) : "it is no file");
}

locker_status lk_zk_tls_files(char **files, const locker_value three[3], locker_error *err)
{
    static const char *const names[] = {"tls_ca", "tls_cert", "tls_key"};
    for (size_t i = 0; i < 3; i++) {
        const locker_status status = check_file(names[i], three[i].text, err);
        if (status != LOCKER_OK)
            return status;
    }
    /* The fourth is the key's password. Without one OpenSSL would ask for it on the terminal. */
    if (asprintf(files, "%s,%s,%s,none", three[0].text, three[1].text, three[2].text) >= 0)
        return LOCKER_OK;
    *files = NULL;
    return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
}

void lk_zk_tls_reason(char *text, size_t size)
{
    unsigned long (*peek)(void) = NULL;
    const char *(*reason_of)(unsigned long) = NULL;
    *(void **)&peek = dlsym(RTLD_DEFAULT, "ERR_peek_last_error");
    *(void **)&reason_of = dlsym(RTLD_DEFAULT, "ERR_reason_error_string");
    const unsigned long code = peek != NULL ? peek() : 0;
    const char *reason = code != 0 && reason_of != NULL ? reason_of(code) : NULL;
    (void)snprintf(text, size, "%s", reason != NULL ? reason : "");
}
