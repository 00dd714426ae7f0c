/*
 * modules.c: drivers as modules, in a directory of the library's own: NAME.so, and beside it NAME.driver,
 * which describes it (description.h). The descriptions are read when a driver is asked for that isn't built
 * in; a module is loaded when a locker of one of its schemes is opened, and stays.
 * Nothing here takes a lock, so that a fork's child finds none held.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "description.h"
#include "registry.h"

enum { DESCRIPTION_MAX = 64 * 1024 };

static const char suffix[] = ".driver";

/* ------------------------------------------------------------------ loading one ---- */

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

static bool lacks_resources(int os_error)
{
    return os_error == EMFILE || os_error == ENFILE || os_error == ENOMEM;
}

static locker_status refuse_for(locker_error *err, int os_error, const char *what)
{
    if (os_error == ENOMEM)
        return locker_error_set(err, LOCKER_NOMEM, os_error, "%s: out of memory", what);
    const bool lacks = lacks_resources(os_error);
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
    return refuse_for(err, os_error, what);
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

static locker_status load_file(const char *path, const char *schemes, const locker_driver **driver,
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
    if (lacks_resources(failure))
        return refuse_by_errno(err, failure, path);
    char why[LOCKER_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s (is the client library of its service installed?)", told(path));
    return refuse(err, path, why);
}

/* ------------------------------------------------------------------ where ---- */

/* The directory beside the file that this code was loaded from, so that what is installed can be moved; where nothing
 * tells where that lies, the one that the build was told. Never from the environment, and never relative to the working
 * directory, which others may choose. */
static void find_directory(char path[PATH_MAX])
{
    char real[PATH_MAX];
    Dl_info library;
    if (dladdr(&lk_modules_by_dlopen, &library) != 0 && library.dli_fname[0] == '/' &&
        realpath(library.dli_fname, real) != NULL) {
        strrchr(real, '/')[1] = '\0';
        if (strlen(real) + sizeof LOCKER_MODULE_SUBDIRECTORY <= PATH_MAX) {
            (void)stpcpy(stpcpy(path, real), LOCKER_MODULE_SUBDIRECTORY);
            return;
        }
    }
    (void)strcpy(path, LOCKER_MODULE_DIRECTORY);
}

/* ------------------------------------------------------------------ descriptions ---- */

typedef struct module {
    lk_description description;
    char *path;    /* of the shared object */
    char *problem; /* what is wrong with the description; NULL: nothing */
} module;

/* What one look at the directory found. Never freed once published: who has asked may have kept pointers into
 * it. */
typedef struct modules {
    struct modules *older;
    char where[PATH_MAX + 64];
    size_t count;
    module *of;
} modules;

static _Atomic(modules *) published;

static void discard(modules *list)
{
    for (size_t i = 0; i < list->count; i++) {
        lk_description_clear(&list->of[i].description);
        free(list->of[i].path);
        free(list->of[i].problem);
    }
    free(list->of);
    free(list);
}

/* The file's whole text, to be freed; NULL and errno. */
static char *text_of(const char *path)
{
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe that nobody writes into */
    char *const text = fd < 0 ? NULL : malloc(DESCRIPTION_MAX + 1);
    const ssize_t length = text == NULL ? -1 : read(fd, text, DESCRIPTION_MAX + 1);
    const int failure = length < 0 ? errno : EFBIG;
    if (fd >= 0)
        (void)close(fd);
    if (length >= 0 && length <= DESCRIPTION_MAX && memchr(text, '\0', (size_t)length) == NULL) {
        text[length] = '\0';
        return text;
    }
    free(text);
    errno = failure;
    return NULL;
}

/* What can't be read is told by `problem`, under the file's name. */
static bool spoilt(module *m, const char *file, size_t name_length, const char *why)
{
    char *const name = strndup(strrchr(file, '/') + 1, name_length);
    if (asprintf(&m->problem, "%s: %s", file, why) < 0)
        m->problem = NULL;
    lk_description_clear(&m->description);
    lk_description_unknown(&m->description, name);
    return m->problem != NULL && name != NULL;
}

/* False and errno: what the system lacks. */
static bool describe(module *m, const char *directory, const char *name)
{
    const size_t length = strlen(name) - strlen(suffix);
    char *file = NULL;
    if (asprintf(&m->path, "%s/%.*s.so", directory, (int)length, name) < 0)
        m->path = NULL;
    if (asprintf(&file, "%s/%s", directory, name) < 0)
        file = NULL;
    bool made = m->path != NULL && file != NULL;
    if (made) {
        char *const text = text_of(file);
        locker_error err;
        if (text == NULL)
            made = !lacks_resources(errno) && spoilt(m, file, length, strerror(errno));
        else if (lk_description_read(&m->description, text, &err) != LOCKER_OK)
            made = err.status != LOCKER_NOMEM && spoilt(m, file, length, err.text);
    }
    m->description.info.module = m->path;
    m->description.info.problem = m->problem;
    free(file);
    return made;
}

static int is_description(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > strlen(suffix) && strcmp(entry->d_name + length - strlen(suffix), suffix) == 0;
}

/* NULL and errno: what the system lacks. */
static modules *look(void)
{
    struct dirent **entries = NULL;
    char directory[PATH_MAX];
    find_directory(directory);
    const int count = scandir(directory, &entries, is_description, alphasort);
    int failure = count < 0 ? errno : 0;
    modules *const list = calloc(1, sizeof *list);
    if (list != NULL)
        list->of = calloc(count > 0 ? (size_t)count : 1, sizeof *list->of);
    bool made = list != NULL && list->of != NULL && !lacks_resources(failure);
    if (made)
        (void)snprintf(list->where, sizeof list->where, "%s%s%s", directory, failure != 0 ? ": " : "",
                       failure != 0 ? strerror(failure) : "");
    for (int i = 0; i < count; i++) {
        if (made && !describe(&list->of[list->count++], directory, entries[i]->d_name)) {
            made = false;
            failure = errno;
        }
        free(entries[i]);
    }
    free(entries);
    if (made)
        return list;
    if (list != NULL)
        discard(list);
    errno = failure != 0 ? failure : ENOMEM;
    return NULL;
}

/* Put a list before the one that was seen, unless another thread has been first. */
static const modules *publish(modules *list, modules *seen)
{
    if (list == NULL)
        return seen;
    list->older = seen;
    if (atomic_compare_exchange_strong(&published, &seen, list))
        return list;
    discard(list);
    return seen;
}

/* NULL and errno: what the system lacks. */
static const modules *known(void)
{
    const modules *const list = atomic_load(&published);
    return list != NULL ? list : publish(look(), NULL);
}

static bool has_scheme(const module *m, const char *scheme)
{
    const size_t length = strlen(scheme);
    for (const char *s = m->description.info.schemes; s[0] != '\0'; s += strspn(s, " ")) {
        const size_t word = strcspn(s, " ");
        if (word == length && strncasecmp(s, scheme, length) == 0)
            return true;
        s += word;
    }
    return false;
}

static const module *described(const modules *list, const char *word)
{
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (has_scheme(&list->of[i], word))
            return &list->of[i];
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (strcasecmp(list->of[i].description.info.name, word) == 0)
            return &list->of[i];
    return NULL;
}

/* The list in which to find it: another look is taken for a module that has been installed since the last one.
 * NULL and errno: what the system lacks. */
static const modules *list_with(const char *word)
{
    modules *const seen = atomic_load(&published);
    const module *m = described(seen, word);
    if (m != NULL && m->problem == NULL)
        return seen;
    modules *const now = look();
    m = described(now, word);
    if (now == NULL || seen == NULL || (m != NULL && m->problem == NULL))
        return now != NULL ? publish(now, seen) : NULL;
    discard(now);
    return seen;
}

/* ------------------------------------------------------------------ for registry.c ---- */

static const locker_driver_info *module_at(size_t index)
{
    const modules *const list = known();
    return list != NULL && index < list->count ? &list->of[index].description.info : NULL;
}

static locker_status find(const char *word, const locker_driver **driver, locker_error *err)
{
    const modules *const list = list_with(word);
    const module *const m = described(list, word);
    *driver = NULL;
    if (list == NULL)
        return refuse_for(err, errno, "the drivers' modules can't be looked for");
    if (m == NULL)
        return LOCKER_OK;
    if (m->problem != NULL)
        return locker_error_set(err, LOCKER_UNSUPPORTED, 0, "%s", m->problem);
    return load_file(m->path, m->description.info.schemes, driver, err);
}

static const char *where(void)
{
    const modules *const list = known();
    return list != NULL ? list->where : "out of memory";
}

const lk_module_loader lk_modules_by_dlopen = {module_at, find, where};
