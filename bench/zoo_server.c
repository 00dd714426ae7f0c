/* zoo_server.c: the ZooKeeper server of a run, alone, on a private port and directory. It goes with us. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define JAR  "/usr/share/java/zookeeper.jar"
#define JARS JAR ":/usr/share/java/slf4j-simple.jar"

static int64_t questions; /* that we have asked: the server counts them as requests */

/* ------------------------------------------------------------------ asking ---- */

/* Its answer to a four-letter command; false: none. */
static bool ask(int port, const char *word, char *answer, size_t size)
{
    const struct timeval patience = {.tv_sec = 2};
    int fd = lk_bench_connect(port);
    size_t got = 0;
    ssize_t more;

    answer[0] = '\0';
    if (fd < 0)
        return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(fd, word, strlen(word), MSG_NOSIGNAL) == (ssize_t)strlen(word))
        while (got + 1 < size && (more = recv(fd, answer + got, size - 1 - got, 0)) > 0)
            got += (size_t)more;
    answer[got] = '\0';
    (void)close(fd);
    return got > 0;
}

int64_t lk_zoo_server_requests(lk_bench *b)
{
    static const char received[] = "Received: ";
    char answer[2048];
    const char *at;

    questions++;
    at = ask(b->zoo.port, "srvr", answer, sizeof answer) ? strstr(answer, received) : NULL;
    return at != NULL ? strtoll(at + sizeof received - 1, NULL, 10) - questions : 0;
}

static bool serves(lk_zoo_server *server)
{
    char answer[2048];

    if (!ask(server->port, "srvr", answer, sizeof answer) || strstr(answer, "Mode: ") == NULL)
        return false;
    if (sscanf(answer, "Zookeeper version: %31[0-9.]", server->version) != 1)
        (void)snprintf(server->version, sizeof server->version, "of unknown version");
    return true;
}

/* ------------------------------------------------------------------ starting ---- */

/* Writes reach the disk when the system likes, so that its speed is not in the figures. */
static bool write_configuration(const lk_zoo_server *server)
{
    char path[96];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/zoo.cfg", server->directory);
    file = fopen(path, "we");
    if (file == NULL)
        return false;
    (void)fprintf(
        file,
        "tickTime=500\nminSessionTimeout=1000\nmaxSessionTimeout=120000\ndataDir=%s\nclientPort=%d\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
        "maxClientCnxns=0\n",
        server->directory, server->port);
    return fclose(file) == 0;
}

static _Noreturn void become_server(const lk_bench *b, pid_t boss)
{
    char log[96], configuration[96];
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC), out;

    (void)snprintf(log, sizeof log, "%s/log", b->zoo.directory);
    (void)snprintf(configuration, sizeof configuration, "%s/zoo.cfg", b->zoo.directory);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0); /* Ctrl-C is for the boss, who stops the server when the rest has ended */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (b->server_cpu >= 0)
        (void)lk_bench_pin(b->server_cpu); /* its threads are born there */
    (void)dup2(in, 0);
    (void)dup2(out, 1);
    (void)dup2(out, 2);
    if (getppid() == boss)
        (void)execlp("java", "java", "-Xms192m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
                     "-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", JARS,
                     "org.apache.zookeeper.server.quorum.QuorumPeerMain", configuration, (char *)NULL);
    _exit(127);
}

/* Java compiles what runs often: the first seconds are no measure. */
static void warm_body(lk_bench *b, int member, const void *arg)
{
    lk_zoo *zoo = lk_zoo_open(b, b->zoo.port, 10000);
    char key[64];

    (void)member;
    (void)arg;
    for (int i = 0; i < 16; i++)
        lk_zoo_make(zoo, lk_zoo_lane_key(key, "warm", i));
    lk_crew_ready(b);
    lk_zoo_lanes(zoo, "warm", false, 16, 0);
    lk_zoo_close(zoo);
}

static bool launch(lk_bench *b)
{
    lk_zoo_server *server = &b->zoo;
    pid_t boss = getpid();

    server->cpu = b->server_cpu;
    server->port = lk_bench_free_port();
    if (!lk_bench_make_directory(server->directory))
        return false;
    if (!write_configuration(server)) {
        lk_progress("can't write into %s: %s", server->directory, strerror(errno));
        return false;
    }
    server->pid = fork();
    if (server->pid == 0)
        become_server(b, boss);
    for (int tries = 0; server->pid > 0 && tries < 1500 && !lk_interrupted; tries++) {
        lk_bench_sleep(20 * LK_MS);
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            lk_progress("the ZooKeeper server ended instead of serving: is default-jre-headless installed?");
            return false;
        }
        if (serves(server))
            return true;
    }
    if (!lk_interrupted)
        lk_progress("the ZooKeeper server does not answer");
    return false;
}

bool lk_zoo_server_need(lk_bench *b)
{
    lk_work warm = {
        .members = 1, .duration = lk_scale(b, 8000) * LK_MS, .cpu = b->client_cpu, .body = warm_body};

    if (access(JAR, R_OK) != 0) {
        lk_progress("there is no %s: install the package zookeeper, or leave the rows z* out by --only", JAR);
        return false;
    }
    if (!launch(b) || !lk_crew_run(b, &warm))
        return false;
    (void)kill(b->zoo.pid, SIGSTOP);
    return true;
}

bool lk_zoo_server_pin(lk_bench *b, int cpu)
{
    (void)kill(b->zoo.pid, SIGCONT);
    if (cpu < 0)
        return false;
    if (b->zoo.cpu != cpu && !lk_bench_pin_process(b->zoo.pid, cpu))
        return false;
    b->zoo.cpu = cpu;
    return true;
}

void lk_zoo_server_stop(lk_bench *b)
{
    if (b->zoo.pid > 0) {
        (void)kill(b->zoo.pid, SIGKILL); /* it has nothing to save */
        (void)waitpid(b->zoo.pid, NULL, 0);
    }
    b->zoo.pid = 0;
    lk_bench_remove_directory(b->zoo.directory);
}

const char *lk_zoo_server_uri(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms)
{
    (void)snprintf(out, LK_SERVER_TEXT, "zookeeper://127.0.0.1:%d/bench?ttl=%lldms", port, (long long)ttl_ms);
    return out;
}
