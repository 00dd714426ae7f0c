/* ours.c: add.sh's work so many times, by a program that keeps its locker: locker_interop URI KEY DIRECTORY TIMES PAUSE_MS */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <locker/locker.h>

static bool add(const char *directory, uint64_t revision)
{
    char counter[256], grants[256];
    unsigned number;
    snprintf(counter, sizeof counter, "%s/counter", directory);
    snprintf(grants, sizeof grants, "%s/grants", directory);
    FILE *file = fopen(counter, "r+e"), *line = fopen(grants, "ae");
    const bool read = file != NULL && line != NULL && fscanf(file, "%u", &number) == 1;
    if (read) {
        rewind(file);
        fprintf(file, "%6u\n", number + 1);
        fprintf(line, "%" PRIu64 " %u ours\n", revision, number);
    }
    return read && fclose(file) == 0 && fclose(line) == 0;
}

int main(int argc, char **argv)
{
    locker *l;
    locker_error err;
    if (argc != 6)
        return 64;
    const long pause_ms = atol(argv[5]);
    const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};
    locker_status status = locker_open(argv[1], NULL, &l, &err);
    for (long left = atol(argv[4]); left > 0 && status == LOCKER_OK; left--) {
        locker_handle *held = NULL;
        status = locker_lock(l, argv[2], NULL, &held, &err);
        if (status == LOCKER_OK && !add(argv[3], locker_handle_token(held)))
            return 1;
        if (status == LOCKER_OK)
            status = locker_unlock(held, &err);
        locker_handle_free(held);
        nanosleep(&pause, NULL);
    }
    if (status != LOCKER_OK)
        fprintf(stderr, "ours: %s\n", err.text);
    locker_close(l);
    return status != LOCKER_OK;
}
