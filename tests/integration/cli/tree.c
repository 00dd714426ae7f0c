/* tree.c: a job that starts other processes, in the ways that jobs do. Its arguments are a name, which stands on the command
 * line of all of them, and what to do: a letter, and in parentheses what the processes do that it starts or becomes.
 *   s       sleep until a signal comes
 *   p       print the process's number and sleep
 *   i       sleep, but ignore TERM, INT and HUP
 *   f(...)  start a process for each and sleep
 *   w(...)  start a process for each and end when they have ended
 *   x(...)  start a process for each and end
 *   d(n)    start n as a daemon: a session of its own, orphaned
 *   g(n)    lead a process group and do n
 *   e(n)    lead a session and do n
 *   t(n)    become timeout(1) of n
 *   l(n)    become `locker run` of n, with a key of its own (TREE_LOCKER is the program)
 *   u(n)    become the set-user-ID copy of this program (TREE_SETUID), take all of root's user ids as sudo does, and do n
 *   h       start a successor and end, which does the same, without end
 *   b       start 20 sleeping processes, one a millisecond, and sleep */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *name;

static void act(const char *what);

/* What stands in the parentheses at `at`, one after the other: returns it as a string, and moves `at` behind it. NULL: end. */
static char *next(const char **at)
{
    const char *end = *at;
    int depth = 0;
    if (*end == '\0' || *end == ')')
        return NULL;
    do {
        depth += (*end == '(') - (*end == ')');
        end++;
    } while (depth > 0 || *end == '(');
    char *const one = strndup(*at, (size_t)(end - *at));
    *at = end;
    return one;
}

static void start_all(const char *list)
{
    for (char *one; (one = next(&list)) != NULL;)
        if (fork() == 0) {
            act(one);
            _exit(0);
        }
}

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

#define BECOME(program, ...)                                                                                 \
    do {                                                                                                     \
        execlp(program, __VA_ARGS__, (char *)NULL);                                                          \
        perror(program);                                                                                     \
        _exit(1);                                                                                            \
    } while (0)

/* Bounded, and not too fast: orphans of a hopper that escapes are the init process's to reap, which may be slow, and zombies use up
 * the machine's process numbers. */
static void hop(void)
{
    for (int i = 0; i < 6000; i++) {
        usleep(5000);
        if (fork() != 0)
            _exit(0);
    }
}

static void multiply(void)
{
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        if (fork() == 0)
            sleep_for_ever();
    }
    sleep_for_ever();
}

static void act(const char *what)
{
    const char *inside = what[1] == '(' ? what + 2 : "";
    char *const one = strchr("dgetlu", what[0]) ? next(&inside) : NULL;
    static char self[] = "/proc/self/exe";
    char program[4096], key[32];
    const ssize_t length = readlink(self, program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    snprintf(key, sizeof key, "inner-%d", (int)getpid());
    switch (what[0]) {
    case 'p':
        printf("%d\n", (int)getpid());
        fflush(stdout);
        sleep_for_ever();
        break;
    case 'i':
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        sleep_for_ever();
        break;
    case 'f':
        start_all(inside);
        sleep_for_ever();
        break;
    case 'w':
        start_all(inside);
        while (wait(NULL) > 0)
            continue;
        break;
    case 'x':
        start_all(inside);
        break;
    case 'd':
        if (fork() == 0) {
            setsid();
            if (fork() == 0)
                act(one);
        }
        break;
    case 'g':
        setpgid(0, 0);
        act(one);
        break;
    case 'e':
        setsid();
        act(one);
        break;
    case 't':
        BECOME("timeout", "timeout", "300", program, name, one);
        break;
    case 'l':
        BECOME(getenv("TREE_LOCKER"), "locker", "run", "-q", "-k", "400ms", key, "--", program, name, one);
        break;
    case 'u':
        BECOME(getenv("TREE_SETUID"), "tree-setuid", name, one, "root");
        break;
    case 'h':
        hop();
        break;
    case 'b':
        multiply();
        break;
    default:
        sleep_for_ever();
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    if (argc == 4 && setresuid(0, 0, 0) != 0) {
        perror("setresuid");
        return 1;
    }
    name = argv[1];
    act(argv[2]);
    return 0;
}
