/* zkserver.c: ZooKeeper servers of a test's own; see zkserver.h. */
#include "zkserver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "expect.h"

#define JARS "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

enum { START_PATIENCE_MS = 4 * LK_TEST_PATIENCE_MS }; /* a busy machine takes half a minute for three JVMs */
enum { FIRST_PORT = 12000, PORTS = 20000, NAMESPACE_PORT = 2181 };

/* ------------------------------------------------------------------ ports ---- */

static bool port_is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool is_free;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return is_free;
}

/* Outside the range from which the kernel takes those of outgoing connections, so that a client which tries a
 * stopped server's port again never connects to itself. */
int lk_zks_free_port(void)
{
    static unsigned next;

    if (next == 0)
        next = (unsigned)getpid() * 31u + (unsigned)lk_test_now_ms();
    for (int tries = 0; tries < 1000; tries++) {
        next = next * 1103515245u + 12345u;
        int port = FIRST_PORT + (int)((next >> 8) % PORTS);

        if (port_is_free(port))
            return port;
    }
    test_fails("no free port from %d to %d", FIRST_PORT, FIRST_PORT + PORTS);
}

static void choose_ports(struct lk_zks *zk)
{
    if (zk->netns >= 0) {
        zk->port = NAMESPACE_PORT;
        zk->quorum_port = NAMESPACE_PORT + 1;
        zk->election_port = NAMESPACE_PORT + 2;
        return;
    }
    zk->port = lk_zks_free_port();
    if (zk->id > 0) {
        zk->quorum_port = lk_zks_free_port();
        zk->election_port = lk_zks_free_port();
    }
}

/* ------------------------------------------------------------------ running ---- */

static FILE *create(const struct lk_zks *zk, const char *name)
{
    char path[96];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", zk->directory, name);
    file = fopen(path, "we");
    if (file == NULL)
        test_fails("can't write %s: %s", path, strerror(errno));
    return file;
}

void lk_zks_set_password(const struct lk_zks *zk, const char *password)
{
    FILE *file = create(zk, "jaas.conf");

    fprintf(file,
            "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
            "  user_%s=\"%s\"\n  user_%s=\"%s\";\n};\n",
            LK_ZKS_USER, password, LK_ZKS_OTHER, LK_ZKS_OTHERS);
    fclose(file);
}

static void write_configuration(const struct lk_zks *zk)
{
    FILE *file = create(zk, "zoo.cfg");

    fprintf(file,
            "tickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=120000\ninitLimit=20\nsyncLimit=%d\n"
            "dataDir=%s\nclientPort=%d\nclientPortAddress=%s\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            zk->tick_ms, 2 * zk->tick_ms, zk->sync_limit, zk->directory, zk->port, zk->address);
    for (int i = 0; zk->id > 0 && i < LK_ZKS_ENSEMBLE; i++) {
        const struct lk_zks *member = &zk->members[i];

        fprintf(file, "server.%d=%s:%d:%d\n", member->id, member->address, member->quorum_port,
                member->election_port);
    }
    fclose(file);
    if (zk->login != LK_ZKS_ANYBODY)
        lk_zks_set_password(zk, LK_ZKS_PASSWORD);
    if (zk->id > 0) {
        file = create(zk, "myid");
        fprintf(file, "%d\n", zk->id);
        fclose(file);
    }
}

/* The options of the Java machine that let it take logins, at `argv`; returns their number. */
static size_t login_options(const struct lk_zks *zk, const char **argv, char jaas[128])
{
    size_t count = 0;

    if (zk->login == LK_ZKS_ANYBODY)
        return 0;
    snprintf(jaas, 128, "-Djava.security.auth.login.config=%s/jaas.conf", zk->directory);
    argv[count++] = jaas;
    argv[count++] = "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    argv[count++] = zk->login == LK_ZKS_SASL ? "-Dzookeeper.skipACL=yes"
                                             : "-Dzookeeper.sessionRequireClientSASLAuth=true";
    return count;
}

/* forceSync: kill -9 loses nothing that was written, only a power cut would; and tests don't wait for disks.
 */
static void run(struct lk_zks *zk)
{
    char path[96], log[96], jaas[128];
    const char *argv[16] = {"java",
                            "-Xmx64m",
                            "-XX:+UseSerialGC",
                            "-XX:TieredStopAtLevel=1",
                            "-XX:-UsePerfData",
                            "-Dzookeeper.forceSync=no",
                            "-Dorg.slf4j.simpleLogger.showDateTime=true"};
    size_t count = 7;
    int in, out;

    if (access("/usr/share/java/zookeeper.jar", R_OK) < 0)
        test_fails("there is no %s; install zookeeper", "/usr/share/java/zookeeper.jar");
    snprintf(path, sizeof path, "%s/zoo.cfg", zk->directory);
    snprintf(log, sizeof log, "%s/log", zk->directory);
    count += login_options(zk, argv + count, jaas);
    argv[count++] = "-cp";
    argv[count++] = JARS;
    argv[count++] = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    argv[count] = path;
    in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    zk->pid = lk_child_exec_in(zk->netns, argv, in, out, out);
    close(in);
    close(out);
    if (zk->pid < 0) {
        zk->pid = 0;
        test_fails("can't run java: %s; install default-jre-headless", strerror(errno));
    }
}

static bool serves_or_ended(void *context)
{
    struct lk_zks *zk = context;

    if (zk->pid > 0 && waitpid(zk->pid, NULL, WNOHANG) == zk->pid)
        zk->pid = 0;
    return zk->pid == 0 || lk_zks_serves(zk);
}

static void print_log(const struct lk_zks *zk)
{
    char path[96], text[8192];
    size_t got = 0;
    FILE *log;

    snprintf(path, sizeof path, "%s/log", zk->directory);
    log = fopen(path, "re");
    if (log != NULL) {
        if (fseek(log, -(long)(sizeof text - 1), SEEK_END) < 0)
            rewind(log);
        got = fread(text, 1, sizeof text - 1, log);
        fclose(log);
    }
    text[got] = '\0';
    print_error("the end of the server's log:\n%s\n", text);
}

void lk_zks_await(struct lk_zks *zk)
{
    if (!lk_wait_until(serves_or_ended, zk, START_PATIENCE_MS) || zk->pid == 0) {
        print_log(zk);
        test_fails("the ZooKeeper server on port %d %s", zk->port,
                   zk->pid == 0 ? "ended instead of serving" : "does not serve");
    }
}

void lk_zks_kill(struct lk_zks *zk)
{
    if (zk->pid > 0) {
        kill(zk->pid, SIGKILL);
        waitpid(zk->pid, NULL, 0);
    }
    zk->pid = 0;
    zk->frozen = false;
}

void lk_zks_launch_only(struct lk_zks *zk)
{
    run(zk);
}

/* ------------------------------------------------------------------ what it remembers ---- */

static uint32_t read_four(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_four(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Over a text or a buffer: four bytes of length, -1 for none, and what it has. */
static const uint8_t *over(const uint8_t *at)
{
    const int32_t len = (int32_t)read_four(at);

    return at + 4 + (len > 0 ? len : 0);
}

/* Where a transaction that creates a child of `parent` keeps the number of the next one; NULL: it is another
 * one. A header (session, cxid, zxid, time, type), path, data, ACL, whether it is ephemeral, the number. */
static uint8_t *number_in(uint8_t *entry, const char *parent)
{
    enum { HEADER = 8 + 4 + 8 + 8, CREATE = 1, CREATE2 = 15, CREATE_CONTAINER = 19 };
    const uint32_t type = read_four(entry + HEADER);
    const uint8_t *at = entry + HEADER + 4;
    const size_t len = strlen(parent);

    if ((type != CREATE && type != CREATE2 && type != CREATE_CONTAINER) || read_four(at) <= len ||
        memcmp(at + 4, parent, len) != 0 || at[4 + len] != '/')
        return NULL;
    at = over(over(at));
    uint32_t acls = read_four(at);
    for (at += 4; acls > 0; acls--)
        at = over(over(at + 4));
    if (type != CREATE_CONTAINER)
        at++;
    return entry + (at - entry);
}

static uint32_t adler32(const uint8_t *bytes, size_t count)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < count; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* In the log of transactions: a header, and each entry with its checksum and length before it and a byte
 * behind it; then zeros. False: none creates a child there. */
static bool patch_log(uint8_t *log, size_t size, const char *parent, int32_t number)
{
    enum { HEADER = 16, BEFORE = 12, LEAST = 40 };
    uint8_t *last = NULL, *last_entry = NULL;

    for (size_t at = HEADER; at + BEFORE + LEAST < size && read_four(log + at + 8) > 0;
         at += BEFORE + read_four(log + at + 8) + 1) {
        uint8_t *found = number_in(log + at + BEFORE, parent);

        if (found != NULL) {
            last = found;
            last_entry = log + at;
        }
    }
    if (last == NULL)
        return false;
    write_four(last, (uint32_t)number);
    write_four(last_entry + 4, adler32(last_entry + BEFORE, read_four(last_entry + 8)));
    return true;
}

static bool patch_file(const char *path, const char *parent, int32_t number)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    bool patched = false;

    if (fd < 0 || fstat(fd, &stat) < 0)
        test_fails("can't open %s: %s", path, strerror(errno));
    if (stat.st_size > 0) {
        uint8_t *log = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (log == MAP_FAILED)
            test_fails("can't map %s: %s", path, strerror(errno));
        patched = patch_log(log, (size_t)stat.st_size, parent, number);
        munmap(log, (size_t)stat.st_size);
    }
    close(fd);
    return patched;
}

void lk_zks_count_from(const struct lk_zks *zk, const char *parent, int32_t number)
{
    char pattern[96];
    bool patched = false;
    glob_t logs;

    snprintf(pattern, sizeof pattern, "%s/version-2/log.*", zk->directory);
    if (glob(pattern, 0, NULL, &logs) != 0)
        test_fails("there is no %s", pattern);
    for (size_t i = 0; i < logs.gl_pathc; i++)
        patched = patch_file(logs.gl_pathv[i], parent, number) || patched;
    globfree(&logs);
    if (!patched)
        test_fails("the server's log creates no child of %s", parent);
}

void lk_zks_listen_everywhere(struct lk_zks *zk)
{
    strcpy(zk->address, "0.0.0.0"); /* which to Java is :: */
    write_configuration(zk);
}

void lk_zks_launch(struct lk_zks *zk, bool keep_data)
{
    if (!keep_data) {
        lk_remove_directory(zk->directory);
        lk_private_directory(zk->directory);
        write_configuration(zk);
    }
    run(zk);
    lk_zks_await(zk);
}

void lk_zks_freeze(struct lk_zks *zk)
{
    int status = 0;

    kill(zk->pid, SIGSTOP);
    if (waitpid(zk->pid, &status, WUNTRACED) != zk->pid || !WIFSTOPPED(status))
        test_fails("the ZooKeeper server on port %d did not stop", zk->port);
    zk->frozen = true;
}

void lk_zks_thaw(struct lk_zks *zk)
{
    kill(zk->pid, SIGCONT);
    zk->frozen = false;
}

/* ------------------------------------------------------------------ one server ---- */

static void set_up(struct lk_zks *zk, int id, int sync_limit, const struct lk_zks_site *site)
{
    zk->id = id;
    zk->sync_limit = sync_limit > 0 ? sync_limit : 10;
    zk->tick_ms = site != NULL && site->tick_ms > 0 ? site->tick_ms : LK_ZKS_TICK_MS;
    zk->netns = site != NULL ? site->netns : -1;
    snprintf(zk->address, sizeof zk->address, "%s", site != NULL ? site->address : "127.0.0.1");
    lk_private_directory(zk->directory);
    choose_ports(zk);
}

struct lk_zks *lk_zks_start(void)
{
    return lk_zks_start_sasl(LK_ZKS_ANYBODY);
}

struct lk_zks *lk_zks_start_sasl(enum lk_zks_login login)
{
    struct lk_zks *zk = calloc(1, sizeof *zk);

    if (zk == NULL)
        test_fails("out of memory (%s)", "server");
    set_up(zk, 0, 0, NULL);
    zk->login = login;
    /* another process may take the port between the choice and the server's bind */
    for (int tries = 0; tries < 3 && zk->pid == 0; tries++) {
        choose_ports(zk);
        write_configuration(zk);
        run(zk);
        lk_wait_until(serves_or_ended, zk, START_PATIENCE_MS);
    }
    lk_zks_await(zk);
    return zk;
}

static void tear_down(struct lk_zks *zk)
{
    lk_zks_kill(zk);
    lk_remove_directory(zk->directory);
}

void lk_zks_free(struct lk_zks *zk)
{
    if (zk == NULL)
        return;
    tear_down(zk);
    free(zk);
}

/* ------------------------------------------------------------------ an ensemble ---- */

struct lk_zks *lk_zks_ensemble_start(int sync_limit, const struct lk_zks_site *sites)
{
    struct lk_zks *members = calloc(LK_ZKS_ENSEMBLE, sizeof *members);

    if (members == NULL)
        test_fails("out of memory (%s)", "ensemble");
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        set_up(&members[i], i + 1, sync_limit, sites != NULL ? &sites[i] : NULL);
        members[i].members = members;
    }
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        write_configuration(&members[i]);
        run(&members[i]);
    }
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++)
        lk_zks_await(&members[i]);
    return members;
}

void lk_zks_ensemble_heal(struct lk_zks *members)
{
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        if (members[i].frozen)
            lk_zks_thaw(&members[i]);
        if (members[i].pid == 0)
            lk_zks_launch_only(&members[i]);
    }
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++)
        lk_zks_await(&members[i]);
}

void lk_zks_ensemble_free(struct lk_zks *members)
{
    for (int i = 0; members != NULL && i < LK_ZKS_ENSEMBLE; i++)
        tear_down(&members[i]);
    free(members);
}

struct search {
    struct lk_zks *members, *found;
    const char *mode;
    int nth;
};

static bool find_member(void *context)
{
    struct search *search = context;
    int left = search->nth;

    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        if (lk_zks_is(&search->members[i], search->mode) && left-- == 0) {
            search->found = &search->members[i];
            return true;
        }
    }
    return false;
}

struct lk_zks *lk_zks_leader(struct lk_zks *members)
{
    struct search search = {members, NULL, "leader", 0};

    lk_require(find_member, &search, "a member of the ensemble should lead");
    return search.found;
}

struct lk_zks *lk_zks_follower(struct lk_zks *members, int nth)
{
    struct search search = {members, NULL, "follower", nth};

    lk_require(find_member, &search, "members of the ensemble should follow");
    return search.found;
}

/* The last change that the member has applied; 0: unknown. */
static uint64_t zxid_of(const struct lk_zks *zk)
{
    char answer[2048];
    const char *line = NULL;
    uint64_t zxid = 0;

    if (lk_zks_ask(zk, "srvr", answer, sizeof answer))
        line = strstr(answer, "Zxid: 0x");
    if (line == NULL || sscanf(line, "Zxid: 0x%" SCNx64, &zxid) != 1)
        return 0;
    return zxid;
}

struct step {
    struct lk_zks *members;
    uint64_t zxid;
};

static bool are_in_step(void *context)
{
    const struct step *step = context;

    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++)
        if (zxid_of(&step->members[i]) < step->zxid)
            return false;
    return true;
}

void lk_zks_require_in_step(struct lk_zks *members)
{
    struct step step = {members, zxid_of(lk_zks_leader(members))};

    lk_require(are_in_step, &step, "all members should apply what the leader has applied");
}

void lk_zks_hosts(const struct lk_zks *members, char *text, size_t size)
{
    size_t at = 0;

    for (int i = 0; i < LK_ZKS_ENSEMBLE && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s:%d", i > 0 ? "," : "", members[i].address,
                               members[i].port);
}

/* ------------------------------------------------------------------ four-letter commands ---- */

bool lk_zks_ask(const struct lk_zks *zk, const char *word, char *answer, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)zk->port)};
    const struct timeval patience = {.tv_sec = 1};
    int fd = -1;
    size_t got = 0;
    ssize_t more;

    answer[0] = '\0';
    if (zk->pid == 0 || zk->frozen || inet_pton(AF_INET, zk->address, &address.sin_addr) != 1)
        return false;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* bounds connect too */
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, word, strlen(word), MSG_NOSIGNAL) == (ssize_t)strlen(word)) {
        while (got + 1 < size && (more = recv(fd, answer + got, size - 1 - got, 0)) > 0)
            got += (size_t)more;
        answer[got] = '\0';
    }
    if (fd >= 0)
        close(fd);
    return got > 0;
}

bool lk_zks_is(const struct lk_zks *zk, const char *mode)
{
    char answer[2048], line[32];

    snprintf(line, sizeof line, "Mode: %s", mode);
    return lk_zks_ask(zk, "srvr", answer, sizeof answer) && strstr(answer, line) != NULL;
}

bool lk_zks_serves(const struct lk_zks *zk)
{
    char answer[2048];

    return lk_zks_ask(zk, "srvr", answer, sizeof answer) && strstr(answer, "Mode: ") != NULL;
}
