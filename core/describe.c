/*
 * describe.c: a program of the build's, which writes the text beside a module from the module's own table:
 *
 *     locker-describe LIBRARY MODULE TEXT
 *
 * It loads the module as the library does. So what can't be loaded, for want of a symbol that the library
 * should export, already fails the build.
 */
#include <dlfcn.h>
#include <stdio.h>
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

static bool write_text(const char *path, const locker_driver *driver)
{
    lk_description description;
    FILE *const file = fopen(path, "we");
    lk_description_of(&description, driver);
    const bool written = file != NULL && lk_description_write(file, &description);
    return file != NULL && fclose(file) == 0 && written;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fputs("usage: locker-describe LIBRARY MODULE TEXT\n", stderr);
        return EXIT_FAILURE;
    }
    (void)load(argv[1]); /* where the module finds it by its name, wherever it lies */
    const locker_driver *const *const entry = dlsym(load(argv[2]), LOCKER_MODULE_ENTRY);
    if (entry == NULL || !write_text(argv[3], *entry)) {
        (void)fprintf(stderr, "locker-describe: can't write %s\n", argv[3]);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
