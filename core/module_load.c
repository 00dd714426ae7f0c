/*
 * module_load.c: a driver's module, from its file to the driver's table. What can't be used is told, by what
 * is wrong and what to do; nothing is ever unloaded.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver_check.h"
#include "module_load.h"

enum { HEADERS_MAX = 64 };

/* dlopen() maps what the headers say, and a file that was cut short would end the process when it is
 * touched. */
static const char *incomplete(int fd, off_t size)
{
    ElfW(Ehdr) file;
    ElfW(Phdr) headers[HEADERS_MAX];
    if (pread(fd, &file, sizeof file, 0) != (ssize_t)sizeof file ||
        memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
        return "it is no shared object";
    if (file.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || file.e_type != ET_DYN ||
        file.e_phentsize != sizeof *headers || file.e_phnum > HEADERS_MAX)
        return "it is no shared object for this machine";
    const size_t length = file.e_phnum * sizeof *headers;
    if (file.e_phoff > (uint64_t)size || pread(fd, headers, length, (off_t)file.e_phoff) != (ssize_t)length)
        return "the file was cut short";
    for (size_t i = 0; i < file.e_phnum; i++)
        if (headers[i].p_type == PT_LOAD && (headers[i].p_filesz > (uint64_t)size ||
                                             headers[i].p_offset > (uint64_t)size - headers[i].p_filesz))
            return "the file was cut short";
    return NULL;
}

static const char *unfit(int fd, const struct stat *st, const struct stat *directory)
{
    if ((directory->st_mode & S_IWOTH) != 0)
        return "every user may write its directory (chmod o-w)";
    if (!S_ISREG(st->st_mode))
        return "it is no regular file";
    if ((st->st_mode & S_IWOTH) != 0)
        return "every user may write it (chmod o-w)";
    return incomplete(fd, st->st_size);
}

bool lk_module_lacks(int os_error)
{
    return os_error == EMFILE || os_error == ENFILE || os_error == ENOMEM;
}

locker_status lk_module_refuse(locker_error *err, int os_error, const char *what)
{
    if (os_error == ENOMEM)
        return locker_error_set(err, LOCKER_NOMEM, os_error, "%s: out of memory", what);
    const bool lacks = lk_module_lacks(os_error);
    return locker_error_set(err, lacks ? LOCKER_UNAVAILABLE : LOCKER_UNSUPPORTED, os_error, "%s: %s; %s",
                            what, strerror(os_error),
                            lacks                ? "raise the limit on open files (ulimit -n)"
                            : os_error == ENOENT ? "install it again"
                                                 : "see to it that it can be read");
}

/* What is wrong is not the system's word. */
static locker_status refuse(locker_error *err, const char *path, const char *why)
{
    return locker_error_set(err, LOCKER_UNSUPPORTED, 0, "the driver's module %s can't be used: %s", path,
                            why);
}

static locker_status refuse_by_errno(locker_error *err, int os_error, const char *path)
{
    char what[PATH_MAX + 64];
    (void)snprintf(what, sizeof what, "the driver's module %s can't be used", path);
    return lk_module_refuse(err, os_error, what);
}

/* Look at the file before it is loaded. Nobody can change it in between but who may write the directory. */
static locker_status check_file(const char *path, locker_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse_by_errno(err, errno, path);
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(path, '/') - path), path);
    struct stat st, above;
    const bool seen = fstat(fd, &st) == 0 && stat(directory, &above) == 0;
    const int failure = errno;
    const char *const why = seen ? unfit(fd, &st, &above) : NULL;
    (void)close(fd);
    if (!seen)
        return refuse_by_errno(err, failure, path);
    return why == NULL ? LOCKER_OK : refuse(err, path, why);
}

static bool are_schemes(const char *const *schemes, const char *told)
{
    for (; *schemes != NULL; schemes++) {
        const size_t length = strlen(*schemes);
        if (strncmp(told, *schemes, length) != 0 || told[length] != (schemes[1] != NULL ? ' ' : '\0'))
            return false;
        told += length + 1;
    }
    return true;
}

/* What dlerror() says, without the path where it begins with it. */
static const char *told(const char *path)
{
    const char *const text = dlerror();
    const size_t length = strlen(path);
    if (text == NULL)
        return "no reason was given";
    return strncmp(text, path, length) == 0 && text[length] == ':' ? text + length + 2 : text;
}

/* The driver that a module which could be loaded brings. */
static locker_status driver_in(void *loaded, const char *path, const char *schemes,
                               const locker_driver **driver, locker_error *err)
{
    const locker_driver *const *const entry = dlsym(loaded, LOCKER_MODULE_ENTRY);
    if (entry == NULL || *entry == NULL)
        return refuse(err, path, "it has no " LOCKER_MODULE_ENTRY ", so it is no driver of liblocker's");
    locker_error inner;
    if (lk_driver_check(*entry, &inner) != LOCKER_OK)
        return refuse(err, path, inner.text);
    if (!are_schemes((*entry)->schemes, schemes))
        return refuse(err, path, "its schemes are not those of the text beside it; install both again");
    *driver = *entry;
    return LOCKER_OK;
}

locker_status lk_module_load(const char *path, const char *schemes, const locker_driver **driver,
                             locker_error *err)
{
    const locker_status status = check_file(path, err);
    if (status != LOCKER_OK)
        return status;
    errno = 0;
    void *const loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (loaded != NULL)
        return driver_in(loaded, path, schemes, driver, err);
    const int failure = errno;
    if (lk_module_lacks(failure))
        return refuse_by_errno(err, failure, path);
    char why[LOCKER_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s (is the client library of its service installed?)", told(path));
    return refuse(err, path, why);
}
