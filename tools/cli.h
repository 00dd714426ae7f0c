/* cli.h: what the subcommands of the locker command share, those too that are programs of their own (lab/):
 * messages, the common options, opening the lock service that they name. All of them use the library's public
 * interface alone. */
#pragma once

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include <locker/locker.h>

/** What the command answers. From 64 on they follow sysexits.h; the last three are a shell's. */
typedef enum {
    LK_EXIT_OK = 0,
    LK_EXIT_FREE = 1,          /**< break: nobody held the lock */
    LK_EXIT_BROKEN = 1,        /**< check-history, compare: a promise is broken */
    LK_EXIT_USAGE = 64,        /**< a wrong option, key or argument */
    LK_EXIT_DATA = 65,         /**< a history's line breaks the format */
    LK_EXIT_NO_INPUT = 66,     /**< a history can't be read */
    LK_EXIT_UNAVAILABLE = 69,  /**< the lock service can't be reached */
    LK_EXIT_INTERNAL = 70,     /**< the service's answer, or our own state, makes no sense */
    LK_EXIT_SYSTEM = 71,       /**< the operating system refused: memory, descriptors, processes */
    LK_EXIT_CONFLICT = 75,     /**< busy, or not free in time; run's -E changes it */
    LK_EXIT_LOST = 76,         /**< the lock was lost; run's --lost-exit-code changes it */
    LK_EXIT_DENIED = 77,       /**< the service refuses the credentials or the rights */
    LK_EXIT_CONFIG = 78,       /**< a wrong URI, profile or parameter, or a driver that is not built in */
    LK_EXIT_CANNOT_EXEC = 126, /**< the command was found but could not be started */
    LK_EXIT_NOT_FOUND = 127,   /**< the command was not found */
    LK_EXIT_SIGNAL = 128       /**< plus the number of the signal */
} lk_exit;

/** The options that every subcommand with a lock service takes. */
typedef struct {
    const char *subcommand; /**< its name, for messages */
    const char *uri;        /**< -u; NULL: not given */
    const char *config;     /**< -f; NULL: not given */
    const char *profile;    /**< --profile; NULL: not given */
    int verbose;            /**< how many -v */
    bool quiet;             /**< -q */
    bool json;              /**< --json */
} lk_common;

/** What getopt_long() answers for options without a letter. */
enum {
    LK_OPT_PROFILE = 0x100,
    LK_OPT_JSON,
    LK_OPT_ON_LOST,
    LK_OPT_LOST_EXIT_CODE,
    LK_OPT_OWNER,
    LK_OPT_FORCE,
    LK_OPT_TOKEN,
    LK_OPT_FOREGROUND,
    LK_OPT_STATUS_FD,
    LK_OPT_WAIT_DESCENDANTS,
    LK_OPT_PROMISE,
    LK_OPT_ALLOW,
    LK_OPT_ALLOW_EMPTY,
    LK_OPT_ALSO
};

/** The common entries of an option table, and their letters. */
#define LK_COMMON_LONG_OPTIONS                                                                               \
    {"uri", required_argument, NULL, 'u'}, {"config", required_argument, NULL, 'f'},                         \
        {"profile", required_argument, NULL, LK_OPT_PROFILE}, {"quiet", no_argument, NULL, 'q'},             \
        {"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'},                               \
    {                                                                                                        \
        "version", no_argument, NULL, 'V'                                                                    \
    }
#define LK_COMMON_LETTERS ":u:f:qvhV"

/** What became of one option: go on with the next; it is not the subcommand's own; else end with this exit
 * code. */
enum { LK_GO_ON = -1, LK_NOT_MINE = -2 };

/** Print one line on stderr, with "locker: " before it. */
void lk_cli_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** From here on a message that would have to wait, for a reader or a stopped terminal, is dropped (true), or not any more. */
void lk_cli_hurry(bool on);

/** As lk_cli_message(), and say where the help is. Returns LK_EXIT_USAGE. */
int lk_cli_usage(const char *subcommand, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** A word of the command line as a message may quote it: not if it can hold a password, such as a URI at a
 * wrong place. */
const char *lk_cli_quotable(const char *word);

/** Take one of the common options, or complain about an option that getopt_long() did not like. Returns
 * LK_GO_ON, or the exit code to end with (0 after -h and -V). */
int lk_cli_common_option(lk_common *common, int option, char **argv);

/** Takes an option of the subcommand's own, with its value in optarg, `into` what belongs to it. */
typedef int lk_cli_take(int option, const lk_common *common, void *into);

/** Read the options, up to the first argument, which is at optind then. `take` may be NULL. Returns LK_GO_ON,
 * or the exit code to end with. */
int lk_cli_parse(int argc, char **argv, lk_common *common, const char *letters, const struct option *table,
                 lk_cli_take *take, void *into);

/** Behind the options: the one KEY, or nothing at all. Return LK_GO_ON, or the exit code after
 * complaining. */
int lk_cli_one_key(int argc, char **argv, const lk_common *common, const char **key);
int lk_cli_no_argument(int argc, char **argv, const lk_common *common);

/** Read a whole number from `min` to `max`. Return LK_GO_ON, or LK_EXIT_USAGE after a message that names the option. */
int lk_cli_number(const char *subcommand, const char *option, const char *text, int min, int max, int *out);

/** Read a duration. Return LK_GO_ON, or LK_EXIT_USAGE after a message that names the option. */
int lk_cli_duration(const char *subcommand, const char *option, const char *text, int64_t *ms);

/** The exit code for a failure of the library. */
int lk_cli_exit_for(locker_status status);

/** Print a library's error and return its exit code. */
int lk_cli_fail(locker_status status, const locker_error *err);

/** Open the lock service that the options name, else the one that locker_open_default() finds. `owner` may be NULL, `ttl_ms`
 * 0. On failure it has complained. Returns 0 or the exit code. */
int lk_cli_open(const lk_common *common, const char *owner, int64_t ttl_ms, locker **out);

/** Told once if the service has as many connections as it takes, before it is tried again. */
typedef void (*lk_cli_full_fn)(const lk_common *common, const locker_error *err);

/** The same, trying again until then (CLOCK_MONOTONIC) while the service is full. */
int lk_cli_open_until(const lk_common *common, const char *owner, int64_t ttl_ms, int64_t until_ms,
                      lk_cli_full_fn full, locker **out);

/** Write the scheme of the service's URI to `out`. */
void lk_cli_backend(const locker *l, char *out, size_t size);

/** Room for the service and what named it. */
enum { LK_CLI_PLACE = 512 };
/** Write the service and what named it, "file:///run/lock/shop (from LOCKER_URI)". Returns `out`. */
const char *lk_cli_place(const lk_common *common, const locker *l, char out[LK_CLI_PLACE]);

/** Flush stdout; when that fails, complain and return LK_EXIT_SYSTEM, else `code`. */
int lk_cli_finish_output(int code);

/** Room for a key or a label with escapes. */
enum { LK_CLI_CLEAN = 4 * LOCKER_KEY_MAX + 1 };
/** Copy text for a terminal: escapes stand for control characters and for bytes that are no UTF-8. Returns `out`. */
const char *lk_cli_clean(const char *text, char out[LK_CLI_CLEAN]);

/** How wide what is listed may be where no terminal says otherwise, in columns. */
enum { LK_CLI_WIDTH = 80 };

/** Print text, with escapes as lk_cli_clean() has them, as lines that end before column `width`. The first one begins at column `at`, where the cursor is; the others
 * are indented by as much. Lines are broken at blanks; a word that is too long has a line of its own. Ends with a newline. */
void lk_cli_wrap(FILE *out, const char *text, int at, int width);

/** A JSON string of text that may not be UTF-8. */
json_t *lk_cli_json_text(const char *text);

/** Print a JSON value on a line of its own and drop it. Returns the exit code. */
int lk_cli_print_json(json_t *value);

/** What a service says about one key, as JSON. */
json_t *lk_cli_info_json(const char *key, const locker_info *info);

/** The words for a number of milliseconds: "850ms", "12.5s", "3m 20s", "2h 5m", "3d 4h". Returns `out`. */
const char *lk_cli_time_words(int64_t ms, char *out, size_t size);

/** "exclusive" or "shared". Static. */
const char *lk_cli_mode_name(locker_mode mode);

/** "2026-01-31 12:00:00 +0000 (3m 20s ago)"; NULL: not known. Returns `out`. */
const char *lk_cli_since_words(int64_t since_unix_ms, char *out, size_t size);

/** What that clock shows, in ms. */
int64_t lk_cli_now_ms(clockid_t clock);

/** Print the help on a subcommand, or on all (NULL). Returns the exit code. */
int lk_cli_help(const char *subcommand);

/** The subcommands, each in a file of its name; argv[0] is the name. They return the exit code. */
int lk_cli_run(int argc, char **argv);
int lk_cli_show(int argc, char **argv);
int lk_cli_break(int argc, char **argv);
int lk_cli_ping(int argc, char **argv);
int lk_cli_drivers(int argc, char **argv);
