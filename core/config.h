/* config.h: a locker's configuration: from a URI (config.c) or a profile (profile.c), completed (params.c). */
#pragma once

#include "lk_error.h"

/** A parameter as it was given. */
typedef struct {
    char *name, *text;
    int line; /**< of the configuration file; 0: it is of a URI */
} lk_given;

/** What can be wrong without being an error: of the configuration file, and of password_file. */
enum { LK_CONFIG_WARNINGS = 2 };

typedef struct {
    const locker_driver *driver;
    locker_driver_config pub; /**< what the driver is told; all that it points to is ours */
    lk_given *given;
    size_t given_count;
    char *password_again; /**< what pub.password_file is */
    char **again;         /**< what pub.secret_files is; NULL: not made yet */
    size_t again_count;
    const char *file; /**< the configuration file, for messages; the caller's. NULL: a URI */
    bool is_users; /**< HOME or XDG_CONFIG_HOME led to `file`, so it has to be this user's own, or root's */
    const char *origin; /**< what named the service, for messages; the caller's. NULL: the program's URI */
    char *warnings[LK_CONFIG_WARNINGS]; /**< lines for the log; NULL past the last */
} lk_config;

void lk_config_clear(lk_config *config);
/** Parse a URI into config. driver NULL: the scheme's. */
locker_status lk_config_uri(lk_config *config, const char *uri, const locker_driver *driver,
                            locker_error *err);
locker_status lk_config_profile(lk_config *config, const char *file, const char *name, locker_error *err);
/** Return the service as a URI without user and password, such as "redis://h:6379/0?namespace=shop", to be freed; NULL: out of
 * memory. What it quotes was checked not to be a password. */
char *lk_config_service(const lk_config *config);
/** Return a copy without control characters (lk_printable.h), to be freed; NULL: out of memory. */
char *lk_config_printable(const char *text);
/** Check the parameters against the tables, and fill in what was not said. */
locker_status lk_config_finish(lk_config *config, const locker_options *options, locker_error *err);

/** The text if it is a word of a-z, '_', '-' and '+', else "(not shown)": it may be a password at a wrong place. */
const char *lk_config_word(const char *text);

/** Makes capitals of a scheme small, as drivers know it. */
void lk_config_lower(char *text);
/** Add one parameter as text, of that line of the file (0: of a URI); a second one of that name is refused. */
locker_status lk_config_add(lk_config *config, const char *name, const char *text, int line,
                            locker_error *err);
locker_status lk_config_add_host(lk_config *config, const char *text, size_t length, locker_error *err);
/** Keep a line for the log. */
locker_status lk_config_warn(lk_config *config, locker_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Check that an open file may be trusted: `what` names it in texts. CONFIG: another user could change it. If it is a secret
 * that every user can read, warn. */
locker_status lk_config_trust(lk_config *config, int fd, const char *what, const char *path, bool secret,
                              locker_error *err);
/** Read the secret of the parameter `name` from the file *path, and put it in the place of the path. `again`: gets where the
 * file can be read later, or NULL; the caller's. (secret.c, which also defines locker_secret_read() of driver.h.) */
locker_status lk_secret_take(lk_config *config, const char *name, char **path, char **again,
                             locker_error *err);
/** Free a text that nobody may find in memory afterwards; NULL is allowed. */
void lk_wipe(const char *secret);
locker_status lk_config_no_memory(locker_error *err);

/** Whether a program's ttl_ms, 0 for the default, is a time at all: OK or INVALID. */
locker_status lk_ttl_check(int64_t ttl_ms, locker_error *err);
/** Whether the driver takes such a lease time; `wrong` is what it answers when not. */
locker_status lk_ttl_in_range(const locker_driver *driver, int64_t ttl_ms, locker_status wrong,
                              locker_error *err);
