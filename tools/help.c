/* help.c: the help texts, at most 80 columns wide. Each is enough to use its subcommand; the man pages say more. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char general_help[] =
    "locker: run a command while holding a lock\n"
    "\n"
    "Usage:\n"
    "  locker run [OPTIONS] KEY [--] COMMAND [ARG...]  run COMMAND while holding KEY\n"
    "  locker show [OPTIONS] KEY                       who holds KEY, and who waits\n"
    "  locker break [OPTIONS] KEY                      take KEY from its holder\n"
    "  locker ping [OPTIONS]                           time a request to the service\n"
    "  locker drivers [--json] [NAME]                  what this build can talk to\n"
    "  locker check-history [OPTIONS] FILE...          judge what happened to locks\n"
    "  locker compare [OPTIONS]                        compare several lock services\n"
    "  locker help [SUBCOMMAND]                        this text, or a subcommand's\n"
    "  locker --version\n"
    "\n"
    "A directory, Redis, ZooKeeper or etcd keeps the locks. Without configuration\n"
    "they are files of this user on this host:\n"
    "  locker run backup -- tar czf /backup/home.tgz /home\n"
    "\n"
    "Among hosts, name a service:\n"
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
    "  -f, --config FILE    an INI file, a section for each profile\n"
    "      --profile NAME   the section (default: LOCKER_PROFILE, else 'default')\n"
    "  Options come first, then LOCKER_URI, LOCKER_CONFIG and LOCKER_PROFILE, then\n"
    "  $XDG_CONFIG_HOME/locker/locker.conf (else ~/.config/locker/locker.conf), then\n"
    "  /etc/locker.conf, then the embedded default: files in /tmp/locker-UID. See\n"
    "  locker-uri(7).\n"
    "\n"
    "Other options:\n"
    "  -q, --quiet          say less; errors are still told\n"
    "  -v, --verbose        say what the library does on stderr; twice: each step\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

static const char run_help[] =
    "Usage: locker run [OPTIONS] KEY [--] COMMAND [ARG...]\n"
    "       locker run [OPTIONS] -c STRING KEY\n"
    "\n"
    "Waits for the lock KEY (1 to 255 bytes of UTF-8), runs COMMAND, renews the lock\n"
    "while COMMAND runs, and releases it at the end. If the lock cannot be kept,\n"
    "COMMAND is stopped before anybody else can have the lock.\n"
    "\n"
    "Waiting:\n"
    "  -n, --nonblock               try once, don't wait\n"
    "  -w, --wait DUR               wait at most DUR (1.5, 500ms, 10s, 2h; 0: try\n"
    "                               once); default: for ever\n"
    "  -E, --conflict-exit-code N   exit with N (0-255) when the lock is busy or not\n"
    "                               free in time; default 75\n"
    "\n"
    "Holding:\n"
    "  -t, --ttl DUR                lease time, renewed while COMMAND runs; default:\n"
    "                               the URI's, else 30s\n"
    "  -k, --kill-after DUR         time from TERM to KILL when the lock is lost, at\n"
    "                               most about two thirds of the lease time; default\n"
    "                               5s, or a quarter of a lease time under 20s\n"
    "      --on-lost WHAT           what COMMAND gets when the lock is lost: term\n"
    "                               (default), ignore, or the name of a signal;\n"
    "                               unless it is ignore, KILL follows\n"
    "      --lost-exit-code N       exit with N (0-255) when the lock was lost;\n"
    "                               default 76\n"
    "      --owner TEXT             the holder's label that show prints; default\n"
    "                               host:pid:COMMAND\n"
    "  -s, --shared                 hold it beside others that share it: readers,\n"
    "                               and no writer\n"
    "  -p, --permits N              at most N hold KEY at once, each with a slot of\n"
    "                               its own, 0 to N-1; a key in use with another\n"
    "                               number, or as a lock, is refused\n"
    "      --also KEY               hold that key, too (up to 63 times): all of them\n"
    "                               or none\n"
    "\n"
    "The command:\n"
    "  -c, --command STRING         run STRING by $SHELL -c, else by /bin/sh -c\n"
    "  -F, --no-fork                become COMMAND, which holds the lock until it and\n"
    "                               what inherits its descriptors have ended: for\n"
    "                               services (Type=notify); file: only\n"
    "      --foreground             leave COMMAND in our process group: for a shell's\n"
    "                               loops, and programs that share the terminal\n"
    "      --wait-descendants       hold the lock until all that COMMAND started has\n"
    "                               ended, too\n"
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
    "  126 COMMAND can't be started                            127 not found\n"
    "\n"
    "Examples:\n"
    "  locker run -n report -- ./report.sh           skip it when one is running\n"
    "  locker run -w 10m -t 1m deploy/web -- make deploy\n"
    "  locker run -c 'n=$(cat c); echo $((n + 1)) >c' counter\n"
    "  locker run -p 3 encoders -- ./encode          three at a time\n"
    "  locker run --also db/b db/a -- ./move-a-to-b  both, or none\n";

static const char show_help[] =
    "Usage: locker show [OPTIONS] KEY\n"
    "\n"
    "Says whether KEY is held, by whom, since when, how long the lease lasts unless\n"
    "renewed, the fencing token of the present or last grant, and who waits, as far\n"
    "as the service knows. Of a key that is shared, or has permits, it shows all\n"
    "holders. Exits with 0 for both held and free.\n"
    "\n"
    "      --json           as JSON, with null for what is not known\n";

static const char break_help[] =
    "Usage: locker break [OPTIONS] KEY\n"
    "\n"
    "Takes KEY from its holder, or from all of them where there are several, and says\n"
    "whose lock it broke. With --token or --owner it takes KEY from that holder only.\n"
    "A holder is told that it lost the lock; the command of a locker run is stopped.\n"
    "Exits with 0 when a lock was broken, with 1 when nobody held it, with 75 when\n"
    "others than those who were named hold it, and with 78 when what is at KEY is not\n"
    "known to be a lock: another client's lock, or an application's data.\n"
    "\n"
    "      --token N        only the holder with this fencing token\n"
    "      --owner TEXT     only a holder with this label\n"
    "      --force          also what liblocker did not write (look at it first)\n"
    "      --json           what was broken, as JSON\n";

static const char ping_help[] = "Usage: locker ping [OPTIONS]\n"
                                "\n"
                                "Reaches the lock service and prints the time of a round trip.\n"
                                "\n"
                                "  -c, --count N        N round trips (1-1000000); default 1\n"
                                "      --json           as JSON, times in microseconds\n";

static const char drivers_help[] =
    "Usage: locker drivers [OPTIONS] [NAME]\n"
    "\n"
    "Lists the drivers, or shows the one that is called NAME or serves the URI scheme\n"
    "NAME. For each: whether it is built in or a module, and why a module can't be\n"
    "used; its URIs; what it promises (from where a lock is seen, in which order\n"
    "waiters are served, what becomes of a lock when its holder dies or is cut off);\n"
    "and its parameters.\n"
    "\n"
    "      --json           as JSON\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

static const char check_history_help[] =
    "Usage: locker check-history [OPTIONS] FILE...\n"
    "\n"
    "Reads histories of locks, JSON lines as docs/history.md describes ('-': standard\n"
    "input), and says whether the promises were kept. Several FILEs, such as one for\n"
    "each process, are one history. Ends with 0 when no promise is broken, 1 when one\n"
    "is, 65 when a line breaks the format or there is none, 66 when a FILE can't be\n"
    "read.\n"
    "\n"
    "Checks, promised unless --allow takes them out:\n"
    "  overlap  no two hold at a time         truth    service and holder agree\n"
    "  tokens   fencing tokens grow           release  unlock released only its own\n"
    "  writes   no stale token was accepted   orphans  nothing is left in the end\n"
    "  waiters  every call returned\n"
    "Promised only if --promise names them:\n"
    "  fifo     who asks first gets it first  notice   a loss is told within 50ms of\n"
    "                                                  the deadline\n"
    "\n"
    "Options:\n"
    "      --promise LIST   these are promised; a duration is the limit:\n"
    "                       fifo=50ms,overlap=10ms,notice=100ms\n"
    "      --allow LIST     these are not: they are told, but break nothing\n"
    "      --allow-empty    a history without a line keeps its promises; else that\n"
    "                       is 65\n"
    "      --json           as JSON, times in milliseconds\n"
    "  -q, --quiet          only the exit code\n"
    "  -v, --verbose        show every breach, not only the first ten of each check\n"
    "                       that is promised\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

static const char compare_help[] =
    "Usage: locker compare --spawn [OPTIONS]\n"
    "       locker compare --backend URI [--backend URI...] [OPTIONS]\n"
    "\n"
    "Runs the same scenarios on several lock services, with processes that really\n"
    "lock, die, are stopped and cut off, and shows what happened beside what each\n"
    "service promises. Ends with 0, or with 1 when a promise was broken.\n"
    "\n"
    "  -b, --backend URI    a lock service; it is asked only for what needs no harm\n"
    "                       to a server\n"
    "      --spawn[=LIST]   start servers on private ports, and end them in any case:\n"
    "                       file, redis, redis-replica, zookeeper,\n"
    "                       zookeeper-ensemble, etcd, etcd-ensemble; without LIST\n"
    "                       all of them\n"
    "  -s, --scenario NAME  run this scenario, and others that are named; default:\n"
    "                       all\n"
    "      --list           list the scenarios\n"
    "  -n, --runs N         run each scenario N times (1-1000); default 1\n"
    "      --quick          fewer samples\n"
    "      --html FILE      write a page with plots; it needs no network\n"
    "      --json FILE      write what happened, line by line, as\n"
    "                       locker check-history reads it\n"
    "  -q, --quiet          don't say how far it is\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n"
    "\n"
    "Scenarios that cut networks need root, iproute2 and iptables.\n"
    "\n"
    "Example:\n"
    "  locker compare --spawn --html comparison.html\n";

static const struct {
    const char *name, *text;
    bool common; /* whether it takes the options that choose a lock service */
    const char *end;
} texts[] = {
    {"run", run_help, true, run_help_end}, {"show", show_help, true, ""},
    {"break", break_help, true, ""},       {"ping", ping_help, true, ""},
    {"drivers", drivers_help, false, ""},  {"check-history", check_history_help, false, ""},
    {"compare", compare_help, false, ""},
};

int lk_cli_help(const char *subcommand)
{
    if (!subcommand || strcmp(subcommand, "help") == 0) {
        printf("%s%s", general_help, common_help);
        return lk_cli_finish_output(LK_EXIT_OK);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].name, subcommand) != 0)
            continue;
        printf("%s%s%s", texts[i].text, texts[i].common ? common_help : "", texts[i].end);
        return lk_cli_finish_output(LK_EXIT_OK);
    }
    return lk_cli_usage(NULL, "there is no subcommand '%s'", lk_cli_quotable(subcommand));
}
