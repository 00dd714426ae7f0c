/* modules.c: drivers as modules, in a directory of the library's own: NAME.so, and beside it NAME.driver,
 * which describes it (description.h). The descriptions are read when a driver is asked for that isn't built
 * in; a module is loaded when a locker of one of its schemes is opened, and stays.
 * Nothing here takes a lock, so that a fork's child finds none held. */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "description.h"
#include "lk_error.h"
#include "lk_fd.h"
#include "lk_trust.h"
#include "registry.h"

enum { DESCRIPTION_MAX = 64 * 1024, HEADERS_MAX = 64 };
static const char suffix[] = ".driver";

/* dlopen() maps what the headers say; touching what a file that was cut short lacks would end the process. */
static const char *incomplete(int fd, off_t size)
{
    ElfW(Ehdr) file;
    ElfW(Phdr) headers[HEADERS_MAX];
    if (pread(fd, &file, sizeof file, 0) != (ssize_t)sizeof file ||
        memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
        return "it is not a shared object";
    if (file.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || file.e_type != ET_DYN ||
        file.e_phentsize != sizeof *headers || file.e_phnum > HEADERS_MAX)
        return "it is not a shared object for this machine";
    const size_t length = file.e_phnum * sizeof *headers;
    if (file.e_phoff > (uint64_t)size || pread(fd, headers, length, (off_t)file.e_phoff) != (ssize_t)length)
        return "the file is truncated";
    for (size_t i = 0; i < file.e_phnum; i++)
        if (headers[i].p_type == PT_LOAD && (headers[i].p_filesz > (uint64_t)size ||
                                             headers[i].p_offset > (uint64_t)size - headers[i].p_filesz))
            return "the file is truncated";
    return NULL;
}

static const char *unfit(int fd, const char *path, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a regular file";
    const char *const problem = lk_trust_problem(path, st);
    return problem != NULL ? problem : incomplete(fd, st->st_size);
}

static bool lacks_resources(int os_error)
{
    return os_error == EMFILE || os_error == ENFILE || os_error == ENOMEM;
}

/* path NULL: no module could be chosen. */
static locker_status refuse_by_errno(locker_error *err, int os_error, const char *path)
{
    char what[PATH_MAX + 64] = "cannot search for driver modules";
    if (path != NULL)
        (void)snprintf(what, sizeof what, "cannot use the driver module %s", path);
    if (os_error == ENOMEM)
        return locker_error_set(err, LOCKER_NOMEM, os_error, "%s: out of memory", what);
    const bool lacks = lacks_resources(os_error);
    return locker_error_set(err, lacks ? LOCKER_UNAVAILABLE : LOCKER_UNSUPPORTED, os_error, "%s: %s; %s",
                            what, strerror(os_error),
                            lacks                ? "raise the limit on open files (ulimit -n)"
                            : os_error == ENOENT ? "install it again"
                                                 : "make it readable");
}

/* What is wrong is not the system's word. */
static locker_status refuse(locker_error *err, const char *path, const char *why)
{
    return lk_unsupported(err, "cannot use the driver module %s: %s", path, why);
}

/* Look at the file before it is loaded. Nobody can change it in between but who may write the directory. */
static locker_status check_file(const char *path, locker_error *err)
{
    const int fd = lk_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0)
        return refuse_by_errno(err, errno, path);
    struct stat st;
    const bool seen = fstat(fd, &st) == 0;
    const int failure = errno;
    const char *const why = seen ? unfit(fd, path, &st) : NULL;
    (void)close(fd);
    if (!seen)
        return refuse_by_errno(err, failure, path);
    return why == NULL ? LOCKER_OK : refuse(err, path, why);
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

/* What of the system's was wanting, by the last of dlerror()'s words, or 0. It closes files after it has failed, and searches
 * further, so errno may be of that. Without memory for words it says three. */
static int lacked(const char *text)
{
    static const int lacks[] = {EMFILE, ENFILE, ENOMEM};
    const char *last = text;
    for (const char *colon = text; (colon = strstr(colon, ": ")) != NULL; last = colon)
        colon += 2;
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (strcmp(last, strerror(lacks[i])) == 0)
            return lacks[i];
    return strcmp(text, "out of memory") == 0 ? ENOMEM : 0;
}

/* The driver that a module which could be loaded brings. */
static locker_status driver_in(void *loaded, const char *path, const char *schemes,
                               const locker_driver **driver, locker_error *err)
{
    const locker_driver *const *const entry = dlsym(loaded, LOCKER_MODULE_ENTRY);
    if (entry == NULL || *entry == NULL)
        return refuse(err, path, "it has no " LOCKER_MODULE_ENTRY ", so it is no driver of liblocker's");
    locker_error inner;
    char own[LK_SCHEMES_MAX];
    if (lk_driver_check(*entry, &inner) != LOCKER_OK)
        return refuse(err, path, inner.text);
    lk_schemes_join(own, (*entry)->schemes);
    if (strcmp(own, schemes) != 0)
        return refuse(err, path, "its schemes differ from those in its .driver file; install both again");
    *driver = *entry;
    return LOCKER_OK;
}

static locker_status load_file(const char *path, const char *schemes, const locker_driver **driver,
                               locker_error *err)
{
    const locker_status status = check_file(path, err);
    if (status != LOCKER_OK)
        return status;
    void *const loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (loaded != NULL)
        return driver_in(loaded, path, schemes, driver, err);
    const char *const text = told(path);
    if (lacked(text) != 0)
        return refuse_by_errno(err, lacked(text), path);
    char why[LOCKER_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s (is the client library of its service installed?)", text);
    return refuse(err, path, why);
}

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

/* What one look at the directory found. Never freed once published: who asked may have pointers into it. */
typedef struct modules {
    struct modules *older;
    char where[PATH_MAX + 64];
    size_t count;
    lk_description of[];
} modules;

static _Atomic(modules *) published;

static void discard(modules *list)
{
    for (size_t i = 0; list != NULL && i < list->count; i++)
        lk_description_clear(&list->of[i]);
    free(list);
}

/* The file's whole text, to be freed; NULL and errno. */
static char *text_of(const char *path)
{
    const int fd = lk_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)); /* not to wait for a pipe */
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

/* What can't be read is told by its problem, under the file's name. 0, or an errno: what the system lacks. */
static int describe(lk_description *d, const char *directory, const char *name)
{
    const int length = (int)(strlen(name) - strlen(suffix));
    char file[PATH_MAX + NAME_MAX + 2], why[sizeof file + LOCKER_ERROR_TEXT_MAX + 2];
    locker_error err = {.status = LOCKER_CONFIG};
    (void)snprintf(file, sizeof file, "%s/%s", directory, name);
    char *const text = text_of(file);
    if (text == NULL && lacks_resources(errno))
        return errno;
    if (text == NULL)
        (void)snprintf(err.text, sizeof err.text, "%s", strerror(errno));
    const bool sound = text != NULL && lk_description_read(d, text, &err) == LOCKER_OK;
    if (!sound) {
        lk_description_clear(d);
        lk_description_unknown(d, strndup(name, (size_t)length));
        (void)snprintf(why, sizeof why, "%s: %s", file, err.text);
        d->info.problem = strdup(why);
    }
    (void)snprintf(file, sizeof file, "%s/%.*s.so", directory, length, name);
    d->info.module = strdup(file);
    const bool made = d->info.module != NULL && d->text != NULL && (sound || d->info.problem != NULL);
    return made && (sound || err.status == LOCKER_CONFIG) ? 0 : ENOMEM;
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
    const int unread = count < 0 ? errno : 0;
    modules *const list = calloc(1, sizeof *list + (count > 0 ? (size_t)count : 0) * sizeof *list->of);
    int failure = list == NULL ? ENOMEM : lacks_resources(unread) ? unread : 0;
    if (list != NULL)
        (void)snprintf(list->where, sizeof list->where, "%s%s%s", directory, unread != 0 ? ": " : "",
                       unread != 0 ? strerror(unread) : "");
    for (int i = 0; i < count; i++) {
        if (failure == 0)
            failure = describe(&list->of[list->count++], directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (failure == 0)
        return list;
    discard(list);
    errno = failure;
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

static bool has_scheme(const locker_driver_info *m, const char *scheme)
{
    const size_t length = strlen(scheme);
    for (const char *s = m->schemes; s[0] != '\0'; s += strspn(s, " ")) {
        const size_t word = strcspn(s, " ");
        if (word == length && strncasecmp(s, scheme, length) == 0)
            return true;
        s += word;
    }
    return false;
}

static const locker_driver_info *described(const modules *list, const char *word)
{
    const locker_driver_info *named = NULL;
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        if (has_scheme(&list->of[i].info, word))
            return &list->of[i].info;
        if (named == NULL && strcasecmp(list->of[i].info.name, word) == 0)
            named = &list->of[i].info;
    }
    return named;
}

static bool describes(const modules *list, const char *word)
{
    const locker_driver_info *const m = described(list, word);
    return m != NULL && m->problem == NULL;
}

/* The list in which to find it: looked for again if it may be new. NULL and errno: what the system lacks. */
static const modules *list_with(const char *word)
{
    modules *const seen = atomic_load(&published);
    if (describes(seen, word))
        return seen;
    modules *const now = look();
    if (now == NULL || seen == NULL || describes(now, word))
        return now != NULL ? publish(now, seen) : NULL;
    discard(now);
    return seen;
}

static const locker_driver_info *module_at(size_t index)
{
    const modules *const list = known();
    return list != NULL && index < list->count ? &list->of[index].info : NULL;
}

static locker_status find(const char *word, const locker_driver **driver, locker_error *err)
{
    const modules *const list = list_with(word);
    const locker_driver_info *const m = described(list, word);
    *driver = NULL;
    if (list == NULL)
        return refuse_by_errno(err, errno, NULL);
    if (m == NULL)
        return LOCKER_OK;
    if (m->problem != NULL)
        return lk_unsupported(err, "%s", m->problem);
    return load_file(m->module, m->schemes, driver, err);
}

static const char *where(void)
{
    const modules *const list = known();
    return list != NULL ? list->where : "out of memory";
}

const lk_module_loader lk_modules_by_dlopen = {module_at, find, where};
