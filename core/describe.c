/* describe.c: a program of the build's, which writes the text beside a module from the module's own table:
 *
 *     locker-describe LIBRARY MODULE TEXT
 *
 * It loads the module as the library does, so what can't be loaded, for want of a symbol, fails the build. */
#include <dlfcn.h>
#include <stdlib.h>

#include "description.h"

static void *load(const char *path)
{
    void *const loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) {
        (void)fprintf(stderr, "locker-describe: %s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    return loaded;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fputs("usage: locker-describe LIBRARY MODULE TEXT\n", stderr);
        return EXIT_FAILURE;
    }
    (void)load(argv[1]); /* where the module finds it by its name, wherever it lies */
    const locker_driver *const *const entry = dlsym(load(argv[2]), LOCKER_MODULE_ENTRY);
    FILE *const file = entry != NULL ? fopen(argv[3], "we") : NULL; /* any descriptor: a tool of the build */
    bool written = file != NULL;
    if (written) {
        lk_description description;
        lk_description_of(&description, *entry);
        written = lk_description_write(file, &description);
    }
    if (file != NULL && fclose(file) == 0 && written)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "locker-describe: cannot write %s\n", argv[3]);
    return EXIT_FAILURE;
}
