/*
 * counter.c: several processes that increment one number in a file, each increment under a lock.
 *
 *     counter FILE TIMES [KEY]
 *
 * Reading a number and writing it back incremented is two steps; without a lock two processes read the same
 * number, and one increment is lost. Without KEY no lock is taken, to see just that. LOCKER_URI says which
 * service keeps the lock. script/demo runs both.
 */
#include <stdio.h>
#include <stdlib.h>

#include <locker/locker.h>

static int increment(const char *path)
{
    unsigned long number = 0;
    FILE *file = fopen(path, "r+");
    if (file == NULL)
        return -1;
    if (fscanf(file, "%lu", &number) != 1)
        number = 0;
    rewind(file);
    const int failed = fprintf(file, "%lu\n", number + 1) < 0;
    return fclose(file) != 0 || failed ? -1 : 0;
}

static int increment_locked(locker *l, const char *key, const char *path)
{
    locker_handle *held = NULL;
    locker_error err;
    if (locker_lock(l, key, NULL, &held, &err) != LOCKER_OK) {
        fprintf(stderr, "counter: %s\n", err.text);
        return -1;
    }
    int failed = increment(path);
    /* OK is the proof that the lock was ours to this moment, and so that nobody else wrote meanwhile. */
    if (locker_unlock(held, &err) != LOCKER_OK) {
        fprintf(stderr, "counter: %s\n", err.text);
        failed = -1;
    }
    locker_handle_free(held);
    return failed;
}

int main(int argc, char **argv)
{
    locker *l = NULL;
    int failed = 0;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: counter FILE TIMES [KEY]\n");
        return 64;
    }
    locker_error err;
    if (argc == 4 && locker_open_default(NULL, &l, &err) != LOCKER_OK) {
        fprintf(stderr, "counter: %s\n", err.text);
        return 69;
    }
    for (long left = strtol(argv[2], NULL, 10); left > 0 && !failed; left--)
        failed = l ? increment_locked(l, argv[3], argv[1]) : increment(argv[1]);
    if (failed)
        fprintf(stderr, "counter: can't increment the number in %s\n", argv[1]);
    locker_close(l);
    return failed ? 1 : 0;
}
