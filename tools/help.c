/* help.c: the help texts, at most 80 columns wide. Each is enough to use its subcommand; the man pages say more. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char general_help[] =
    "locker: run a command while holding a lock\n"
    "\n"
    "Usage:\n"
    "  locker run [OPTIONS] KEY [--] COMMAND [ARG...]  run COMMAND while holding KEY\n"
    "  locker show [OPTIONS] KEY                       show KEY's holders and waiters\n"
    "  locker break [OPTIONS] KEY                      take KEY from its holder\n"
    "  locker ping [OPTIONS]                           time a request to the service\n"
    "  locker drivers [--json] [NAME]                  list drivers and promises\n"
    "  locker check-history [OPTIONS] FILE...          judge a history of locks\n"
    "  locker compare [OPTIONS]                        compare several lock services\n"
    "  locker help [SUBCOMMAND]                        help, or a SUBCOMMAND's help\n"
    "  locker --version\n"
    "\n"
    "A directory, Redis, ZooKeeper or etcd keeps the locks. Without configuration\n"
    "they are files of this user on this host:\n"
    "  locker run backup -- tar czf /backup/home.tgz /home\n"
    "\n"
    "To lock across hosts, name a service:\n"
    "  export LOCKER_URI='redis://10.0.0.5/0?ttl=30s'\n"
    "  export LOCKER_URI='zookeeper://10.0.0.5,10.0.0.6,10.0.0.7/jobs'\n"
    "  export LOCKER_URI='etcd://10.0.0.5,10.0.0.6,10.0.0.7/jobs'\n"
    "  locker run backup -- ./backup.sh\n";

static const char common_help[] =
    "\n"
    "The lock service:\n"
    "  -u, --uri URI        such as file:///run/lock/shop, etcd://h1,h2,h3/apps/shop,\n"
    "                       redis://host:6379/0?namespace=shop,\n"
    "                       zookeeper://h1,h2,h3/apps/shop\n"
    "  -f, --config FILE    an INI file, with a section for each profile\n"
    "      --profile NAME   the section (default: LOCKER_PROFILE, else 'default')\n"
    "  Options come first, then LOCKER_URI, LOCKER_CONFIG and LOCKER_PROFILE, then\n"
    "  $XDG_CONFIG_HOME/locker/locker.conf (else ~/.config/locker/locker.conf), then\n"
    "  /etc/locker.conf, then the embedded default: files in /tmp/locker-UID. See\n"
    "  locker-uri(7).\n"
    "\n"
    "Other options:\n"
    "  -q, --quiet          print less, but print all errors\n"
    "  -v, --verbose        print events to stderr; twice: also each step\n"
    "  -h, --help           show this help\n"
    "  -V, --version        show the version\n";

static const char run_help[] =
    "Usage: locker run [OPTIONS] KEY [--] COMMAND [ARG...]\n"
    "       locker run [OPTIONS] -c STRING KEY\n"
    "\n"
    "Waits for the lock KEY (1 to 255 bytes of UTF-8), runs COMMAND, renews the lock\n"
    "while COMMAND runs, and releases it at the end. If the lock cannot be kept,\n"
    "COMMAND is stopped before another process can have the lock.\n"
    "\n"
    "Waiting:\n"
    "  -n, --nonblock               try once, without waiting\n"
    "  -w, --wait DUR               wait at most DUR (1.5, 500ms, 10s, 2h; 0: try\n"
    "                               once); default: for ever\n"
    "  -E, --conflict-exit-code N   exit with N (0-255) if the lock is busy or not\n"
    "                               free in time; default 75\n"
    "\n"
    "Holding:\n"
    "  -t, --ttl DUR                lease time, renewed while COMMAND runs; default:\n"
    "                               the URI's, else 30s\n"
    "  -k, --kill-after DUR         time from TERM to KILL when the lock is lost, at\n"
    "                               most about two thirds of the lease time; default\n"
    "                               5s, or a quarter of a lease time under 20s\n"
    "      --on-lost SIGNAL         send it to COMMAND when the lock is lost, then\n"
    "                               KILL; default term; ignore: send nothing\n"
    "      --lost-exit-code N       exit with N (0-255) if the lock was lost;\n"
    "                               default 76\n"
    "      --owner TEXT             the holder's label that show prints; default\n"
    "                               host:pid:COMMAND\n"
    "  -s, --shared                 share KEY with other --shared holders: readers,\n"
    "                               but no writer\n"
    "  -p, --permits N              let at most N hold KEY at once, each with its own\n"
    "                               slot (0 to N-1); refused if KEY is in use with\n"
    "                               another N, or as a lock\n"
    "      --also KEY               hold this KEY, too (up to 63 times): all keys, or\n"
    "                               none\n"
    "\n"
    "The command:\n"
    "  -c, --command STRING         run STRING by $SHELL -c, else by /bin/sh -c\n"
    "  -F, --no-fork                become COMMAND; the lock lasts until all that\n"
    "                               inherit its descriptors have ended; for services\n"
    "                               (Type=notify); file: only\n"
    "      --foreground             leave COMMAND in locker's process group: for\n"
    "                               shell loops, and programs that share the\n"
    "                               terminal\n"
    "      --wait-descendants       hold the lock until all processes that COMMAND\n"
    "                               started have ended\n"
    "      --status-fd N            write JSON lines to the open descriptor N:\n"
    "                               waiting, acquired, lost, refused, exited,\n"
    "                               released\n";

static const char run_help_end[] =
    "\n"
    "COMMAND's environment: LOCKER_HELD=1, LOCKER_KEY, LOCKER_TOKEN (the fencing\n"
    "token), LOCKER_OWNER, LOCKER_BACKEND, LOCKER_TTL_MS (0: no lease),\n"
    "LOCKER_HELD_KEYS; LOCKER_SLOT with -p; LOCKER_TOKENS, a line 'TOKEN KEY' for\n"
    "each key. No password is passed on.\n"
    "\n"
    "Exit code: that of COMMAND, 128+N when signal N ended it or ended the wait, or\n"
    "  64 usage                    69 service out of reach     70 internal error\n"
    "  71 operating system         75 busy or not free in time 76 lost\n"
    "  77 credentials refused      78 configuration\n"
    "  126 COMMAND cannot be started                           127 not found\n"
    "\n"
    "Examples:\n"
    "  locker run -n report -- ./report.sh           skip it if it is running\n"
    "  locker run -w 10m -t 1m deploy/web -- make deploy\n"
    "  locker run -c 'n=$(cat c); echo $((n + 1)) >c' counter\n"
    "  locker run -p 3 encoders -- ./encode          three at a time\n"
    "  locker run --also db/b db/a -- ./move-a-to-b  both, or none\n";

static const char show_help[] =
    "Usage: locker show [OPTIONS] KEY\n"
    "\n"
    "Prints whether KEY is held, its holder, the time of the grant, the time left if\n"
    "the lease is not renewed, the fencing token of the present or last grant, and\n"
    "the waiters, as far as the service knows them. For a shared key, or a key with\n"
    "permits, it prints all holders. Exits with 0 if KEY is held or free.\n"
    "\n"
    "      --json           print JSON, with null for unknown values\n";

static const char break_help[] =
    "Usage: locker break [OPTIONS] KEY\n"
    "\n"
    "Takes KEY from its holder or holders, and prints whose lock it broke. With\n"
    "--token or --owner, it takes KEY only from the holders that these options name.\n"
    "A holder is notified of its loss; the command of a locker run is stopped. Exits\n"
    "with 0 if a lock was broken, 1 if KEY had no holder, 75 if KEY has other holders\n"
    "than those named, and 78 if the data at KEY may not be a lock: another client's\n"
    "lock, or an application's data.\n"
    "\n"
    "      --token N        break only the lock of the holder with this fencing token\n"
    "      --owner TEXT     break only locks of holders with this label\n"
    "      --force          delete also what liblocker did not write; look first\n"
    "      --json           print the broken locks as JSON\n";

static const char ping_help[] = "Usage: locker ping [OPTIONS]\n"
                                "\n"
                                "Connects to the lock service and prints the time of a round trip.\n"
                                "\n"
                                "  -c, --count N        make N round trips (1-1000000); default 1\n"
                                "      --json           print JSON, with times in microseconds\n";

static const char drivers_help[] =
    "Usage: locker drivers [OPTIONS] [NAME]\n"
    "\n"
    "Lists all drivers, or only the driver with the name or URI scheme NAME. Prints\n"
    "for each: whether it is built in or a module, and why a module cannot be used;\n"
    "its URIs; its promises (where a lock is visible, in which order waiters are\n"
    "served, and what happens to a lock when its holder dies or is cut off); and its\n"
    "parameters.\n"
    "\n"
    "      --json           print JSON\n"
    "  -h, --help           show this help\n"
    "  -V, --version        show the version\n";

static const char check_history_help[] =
    "Usage: locker check-history [OPTIONS] FILE...\n"
    "\n"
    "Reads histories of locks (JSON lines, see docs/history.md; '-': standard input),\n"
    "and reports whether the promises were kept. Several FILEs, such as a file for\n"
    "each process, are a single history. Exits with 0 if no promise is broken, 1 if a\n"
    "promise is broken, 65 if a line breaks the format or there is no line, and 66 if\n"
    "a FILE cannot be read.\n"
    "\n"
    "Checks that are promises, except with --allow:\n"
    "  overlap  no two hold at a time         truth    service and holder agree\n"
    "  tokens   fencing tokens grow           release  unlock released only its own\n"
    "  writes   no stale token was accepted   orphans  nothing is left in the end\n"
    "  waiters  every call returned\n"
    "Checks that are promises only with --promise:\n"
    "  fifo     calls served in order         notice   a loss is notified within 50ms\n"
    "                                                  after the deadline\n"
    "\n"
    "Options:\n"
    "      --promise LIST   require these checks; a duration is the limit:\n"
    "                       fifo=50ms,overlap=10ms,notice=100ms\n"
    "      --allow LIST     report breaches of these checks, but do not count them\n"
    "      --allow-empty    accept a history without lines; otherwise exit with 65\n"
    "      --json           print JSON, with times in milliseconds\n"
    "  -q, --quiet          print nothing\n"
    "  -v, --verbose        print all breaches, not only the first ten of each\n"
    "                       required check\n"
    "  -h, --help           show this help\n"
    "  -V, --version        show the version\n";

static const char compare_help[] =
    "Usage: locker compare --spawn [OPTIONS]\n"
    "       locker compare --backend URI [--backend URI...] [OPTIONS]\n"
    "\n"
    "Runs the same scenarios on several lock services. Worker processes lock, and are\n"
    "killed, stopped and cut off. Prints the results beside the promises of each\n"
    "service. Exits with 0, or with 1 if a promise was broken.\n"
    "\n"
    "  -b, --backend URI    compare this service, by the scenarios that do not harm a\n"
    "                       server (up to 8 times)\n"
    "      --spawn[=LIST]   start servers on private ports, and end them in any case:\n"
    "                       file, redis, redis-replica, zookeeper,\n"
    "                       zookeeper-ensemble, etcd, etcd-ensemble; without LIST:\n"
    "                       all\n"
    "  -s, --scenario NAME  run this scenario (may be repeated); default: all\n"
    "      --list           list the scenarios\n"
    "  -n, --runs N         run each scenario N times (1-1000); default 1\n"
    "      --quick          take fewer samples\n"
    "      --html FILE      write a page with plots; it needs no network\n"
    "      --json FILE      write the histories as JSON lines for locker\n"
    "                       check-history\n"
    "  -q, --quiet          print no progress\n"
    "  -h, --help           show this help\n"
    "  -V, --version        show the version\n"
    "\n"
    "Scenarios that cut networks need root, iproute2 and iptables.\n"
    "\n"
    "Example:\n"
    "  locker compare --spawn --html comparison.html\n";

static const struct {
    const char *name, *text;
    const char *common; /* the options that choose a lock service, or "" */
    const char *end;
} texts[] = {
    {"help", general_help, common_help, ""}, {"run", run_help, common_help, run_help_end},
    {"show", show_help, common_help, ""},    {"break", break_help, common_help, ""},
    {"ping", ping_help, common_help, ""},    {"drivers", drivers_help, "", ""},
    {"compare", compare_help, "", ""},       {"check-history", check_history_help, "", ""},
};

int lk_cli_help(const char *subcommand)
{
    const char *const name = subcommand ? subcommand : "help";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].name, name) != 0)
            continue;
        printf("%s%s%s", texts[i].text, texts[i].common, texts[i].end);
        return lk_cli_finish_output(LK_EXIT_OK);
    }
    return lk_cli_usage(NULL, "there is no subcommand '%s'", lk_cli_quotable(name));
}
