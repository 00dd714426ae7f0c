/* help.c: the help texts. Each is enough to use its subcommand; the man pages say more. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char general_help[] =
    "locker: run a command while holding a lock, kept by a directory, Redis, ZooKeeper or etcd\n"
    "\n"
    "Usage:\n"
    "  locker run [OPTIONS] KEY [--] COMMAND [ARG...]   run COMMAND while holding the lock KEY\n"
    "  locker show [OPTIONS] KEY                        who holds KEY, since when, who waits\n"
    "  locker break [OPTIONS] KEY                       take KEY away from whoever holds it\n"
    "  locker ping [OPTIONS]                            reach the lock service, and time it\n"
    "  locker drivers [--json]                          what this build can talk to\n"
    "  locker check-history [OPTIONS] FILE...           judge what happened to some locks\n"
    "  locker compare [OPTIONS]                         run the same scenarios on several lock services\n"
    "  locker help [SUBCOMMAND]                         this text, or that on a subcommand\n"
    "  locker --version\n"
    "\n"
    "With no configuration at all the locks are files of this user on this host:\n"
    "  locker run backup -- tar czf /backup/home.tgz /home\n"
    "Among hosts:\n"
    "  LOCKER_URI='redis://10.0.0.5/0?ttl=30s' locker run backup -- ./backup.sh\n"
    "  LOCKER_URI='zookeeper://10.0.0.5,10.0.0.6,10.0.0.7/jobs' locker run backup -- ./backup.sh\n"
    "  LOCKER_URI='etcd://10.0.0.5,10.0.0.6,10.0.0.7/jobs' locker run backup -- ./backup.sh\n";

static const char common_help[] =
    "\n"
    "The lock service:\n"
    "  -u, --uri URI        such as file:///run/lock/shop, redis://host:6379/0?namespace=shop,\n"
    "                       zookeeper://h1,h2,h3/apps/shop, etcd://h1,h2,h3/apps/shop\n"
    "  -f, --config FILE    an INI file, a section for each profile\n"
    "      --profile NAME   the section (default: LOCKER_PROFILE, else 'default')\n"
    "  A flag beats the environment (LOCKER_URI, LOCKER_CONFIG, LOCKER_PROFILE), which beats a file at\n"
    "  $XDG_CONFIG_HOME/locker/locker.conf (else ~/.config/locker/locker.conf) or /etc/locker.conf, which\n"
    "  beats the embedded default: files in /tmp/locker-UID. See locker-uri(7).\n"
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
    "Runs COMMAND while holding the lock KEY (1 to 255 bytes of UTF-8). It waits for the lock, renews it\n"
    "while COMMAND runs, releases it at the end, and stops COMMAND before anybody else can have the lock\n"
    "when it can't be kept.\n"
    "\n"
    "Waiting:\n"
    "  -n, --nonblock               try once, don't wait\n"
    "  -w, --wait DUR               wait at most DUR (1.5, 500ms, 10s, 2h; 0: try once); default: for ever\n"
    "  -E, --conflict-exit-code N   exit with N (0-255) when it is busy or not free in time; default 75\n"
    "\n"
    "Holding:\n"
    "  -t, --ttl DUR                lease time, renewed while COMMAND runs; default: the URI's, else 30s\n"
    "  -k, --kill-after DUR         time from TERM to KILL when the lock is lost, at most about two thirds\n"
    "                               of the lease time; default 5s, or a quarter of a lease time under 20s\n"
    "      --on-lost WHAT           what COMMAND gets when the lock is lost: term (default), ignore, or\n"
    "                               the name of a signal; unless it is ignore, KILL follows\n"
    "      --lost-exit-code N       exit with N (0-255) when the lock was lost; default 76\n"
    "      --owner TEXT             the holder's label that show prints; default host:pid:program\n"
    "  -s, --shared                 hold it beside others that share it: readers, and no writer\n"
    "  -p, --permits N              at most N hold KEY at once, each with a slot of its own, 0 to N-1; a key\n"
    "                               in use with another number, or as a lock, is refused\n"
    "      --also KEY               hold that key, too (up to 63 times): all of them or none\n"
    "\n"
    "The command:\n"
    "  -c, --command STRING         run STRING by $SHELL -c, else by /bin/sh -c\n"
    "      --foreground             leave COMMAND in our process group: for a shell's loops, and programs\n"
    "                               that share the terminal; its own children aren't stopped then\n"
    "      --status-fd N            write JSON lines to the open descriptor N: waiting, acquired, lost,\n"
    "                               exited, released\n";

static const char run_help_end[] =
    "\n"
    "COMMAND's environment: LOCKER_HELD=1, LOCKER_KEY, LOCKER_TOKEN (the fencing token), LOCKER_OWNER,\n"
    "LOCKER_BACKEND, LOCKER_TTL_MS (0: no lease), LOCKER_HELD_KEYS; LOCKER_SLOT with -p; LOCKER_TOKENS, a\n"
    "line 'TOKEN KEY' for each key; no password is passed on.\n"
    "\n"
    "Exit code: that of COMMAND, 128+N when signal N ended it, or ended the wait; or\n"
    "   75 busy or not free in time     76 lost               64 usage\n"
    "   69 service out of reach         70 internal error     71 operating system\n"
    "   77 credentials refused          78 configuration     126 COMMAND can't be started   127 not found\n"
    "\n"
    "Examples:\n"
    "  locker run -n report -- ./report.sh             one at a time; skip it when one is running\n"
    "  locker run -w 10m -t 1m deploy/web -- make deploy\n"
    "  locker run -c 'n=$(cat c); echo $((n + 1)) >c' counter\n"
    "  locker run -p 3 encoders -- ./encode            three at a time\n"
    "  locker run --also db/b db/a -- ./move-a-to-b    both, or none\n";

static const char show_help[] =
    "Usage: locker show [OPTIONS] KEY\n"
    "\n"
    "Says whether KEY is held, by whom, since when, how long the lease lasts unless renewed, the fencing\n"
    "token of the present or last grant, and who waits, as far as the service knows. Of a key that is\n"
    "shared, or has permits, all who hold it. Exits with 0 for both held and free.\n"
    "\n"
    "      --json           as JSON, with null for what is not known\n";

static const char break_help[] =
    "Usage: locker break [OPTIONS] KEY\n"
    "\n"
    "Takes KEY away from whoever holds it, all of them where several do, and says whose lock it broke; or\n"
    "from those alone who are named. The holder is told that it lost the lock; a holder that runs under\n"
    "locker run has its command stopped. Exits with 0 when a lock was broken, with 1 when nobody held it,\n"
    "with 75 when others than those who were named hold it.\n"
    "\n"
    "      --token N        only the holder with this fencing token\n"
    "      --owner TEXT     only a holder with this label\n"
    "      --json           what was broken, as JSON\n";

static const char ping_help[] = "Usage: locker ping [OPTIONS]\n"
                                "\n"
                                "Reaches the lock service and prints the time of a round trip.\n"
                                "\n"
                                "  -c, --count N        N round trips (1-1000000); default 1\n"
                                "      --json           as JSON, times in microseconds\n";

static const char drivers_help[] =
    "Usage: locker drivers [--json]\n"
    "\n"
    "Lists the drivers, built in or modules, and why a module can't be used: their URIs, what each\n"
    "promises (from where a lock is seen, in which order waiters are served, what becomes of it when its\n"
    "holder dies or is cut off), and their parameters.\n";

static const char check_history_help[] =
    "Usage: locker check-history [OPTIONS] FILE...\n"
    "\n"
    "Reads histories of locks, JSON lines as docs/history.md tells ('-': standard input), and says whether\n"
    "the promises were kept. Several FILEs, such as one for each process, are one history. Ends with 0 when\n"
    "no promise is broken, 1 when one is, 65 when a line breaks the format or there is none, 66 when a FILE\n"
    "can't be read.\n"
    "\n"
    "Checks, promised unless --allow takes them out:\n"
    "  overlap  no two hold at a time            truth    the service says the same as the holder\n"
    "  tokens   fencing tokens grow              release  unlock said released only of what was its own\n"
    "  writes   no stale token was accepted      orphans  nothing is left at the service in the end\n"
    "  waiters  every call returned\n"
    "Promised only if --promise names them:\n"
    "  fifo     who asks first gets it first     notice   a loss is told within 50ms of the deadline\n"
    "\n"
    "Options:\n"
    "      --promise LIST   these are promised; a duration is the limit: fifo=50ms,overlap=10ms,\n"
    "                       notice=100ms\n"
    "      --allow LIST     these are not: they are told, but break nothing\n"
    "      --allow-empty    a history without a line keeps its promises; else that is 65\n"
    "      --json           as JSON, times in milliseconds\n"
    "  -q, --quiet          only the exit code\n"
    "  -v, --verbose        show every breach, not only the first ten of each check that is promised\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

static const char compare_help[] =
    "Usage: locker compare --spawn [OPTIONS]\n"
    "       locker compare --backend URI [--backend URI...] [OPTIONS]\n"
    "\n"
    "Runs the same scenarios on several lock services, with processes that really lock, die, are stopped\n"
    "and cut off, and shows what happened beside what each service promises. Ends with 0, or with 1 when\n"
    "a promise was broken.\n"
    "\n"
    "  -b, --backend URI    a lock service; it is asked only for what needs no harm to a server\n"
    "      --spawn[=LIST]   start servers on private ports, and end them in any case: file, redis,\n"
    "                       redis-replica, zookeeper, zookeeper-ensemble, etcd, etcd-ensemble; without\n"
    "                       LIST all of them\n"
    "  -s, --scenario NAME  run this scenario, and others that are named; default: all\n"
    "      --list           list the scenarios\n"
    "  -n, --runs N         run each scenario N times (1-1000); default 1\n"
    "      --quick          fewer samples\n"
    "      --html FILE      write a page with plots; it needs no network\n"
    "      --json FILE      write what happened, line by line, as locker check-history reads it\n"
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
