/* conform.c: the conformance kit on the SQLite driver. `conform --help` tells what it can run. */
#include <locker/conformance.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlite3.h>

#include "sqlite_lock.h"

/* In memory: the tests limit times, and a disk that others write to may take a second to write. */
static const char in_memory[] = "/dev/shm";
static char directory[] = "/dev/shm/sqlite-lock-XXXXXX";
static char path[sizeof directory + sizeof "/locks.db"];
static sqlite3 *other; /* who has the database while it is frozen */

static void *start(char *uri, size_t size)
{
    (void)snprintf(directory, sizeof directory, "%s/sqlite-lock-XXXXXX",
                   access(in_memory, W_OK) == 0 ? in_memory : "/tmp");
    if (mkdtemp(directory) == NULL) {
        perror(directory);
        return NULL;
    }
    (void)snprintf(path, sizeof path, "%s/locks.db", directory);
    (void)snprintf(uri, size, "sqlite://%s?namespace=suite", path);
    return path;
}

static void stop(void *service)
{
    static const char *const files[] = {"", "-wal", "-shm"};
    char name[sizeof path + 8];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", (const char *)service, files[i]);
        (void)unlink(name);
    }
    (void)rmdir(directory);
}

/* Another process has the database, and does not give it back. */
static bool freeze(void *service)
{
    if (sqlite3_open(service, &other) == SQLITE_OK && sqlite3_busy_timeout(other, 5000) == SQLITE_OK &&
        sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
        return true;
    fprintf(stderr, "can't take the database: %s\n", sqlite3_errmsg(other));
    return false;
}

static bool thaw(void *service)
{
    (void)service;
    (void)sqlite3_close(other); /* rolls back */
    other = NULL;
    return true;
}

int main(int argc, char **argv)
{
    const locker_conformance_subject subject = {.size = sizeof subject,
                                                .driver = &sqlite_lock_driver,
                                                .start = start,
                                                .stop = stop,
                                                .poll_ms = 20,
                                                .freeze = freeze,
                                                .thaw = thaw};
    return locker_conformance_run(&subject, argc, argv);
}
