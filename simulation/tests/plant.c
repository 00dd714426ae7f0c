/* plant.c: see plant.h. */
#include "plant.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "simulation/zookeeper/tree.h"
#include "wire.h"

lk_simzk_stat __real_lk_simzk_tree_stat(const lk_simzk_node *node);
lk_simzk_stat __wrap_lk_simzk_tree_stat(const lk_simzk_node *node);
void __real_lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent);
void __wrap_lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent);
bool __real_lk_simzk_path_is_valid(const char *path);
bool __wrap_lk_simzk_path_is_valid(const char *path);
void __real_wire_send(wire *w, const lk_simzk_request *request);
void __wrap_wire_send(wire *w, const lk_simzk_request *request);
ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);

static const char *const names[] = {"",
                                    "plain-cversion", /* deletions are not counted as changes of the parent */
                                    "deaf-parent",    /* who watches children isn't told of a deletion */
                                    "any-path",       /* every name will do */
                                    "no-answer"};     /* of the real one, and its patience is over at once */
enum { PLAIN_CVERSION = 1, DEAF_PARENT, ANY_PATH, NO_ANSWER, COUNT };

static int planted;
static bool is_silent;

bool plant(const char *name)
{
    for (int i = 1; i < COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            planted = i;
    return planted != 0;
}

lk_simzk_stat __wrap_lk_simzk_tree_stat(const lk_simzk_node *node)
{
    lk_simzk_stat stat = __real_lk_simzk_tree_stat(node);
    if (planted == PLAIN_CVERSION)
        stat.cversion = node->cversion;
    return stat;
}

void __wrap_lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent)
{
    __real_lk_simzk_watches_deleted(w, node, planted == DEAF_PARENT ? node : parent);
}

bool __wrap_lk_simzk_path_is_valid(const char *path)
{
    return planted == ANY_PATH || __real_lk_simzk_path_is_valid(path);
}

void __wrap_wire_send(wire *w, const lk_simzk_request *request)
{
    is_silent = planted == NO_ANSWER;
    if (!is_silent)
        __real_wire_send(w, request);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    if (!is_silent)
        return __real_recv(fd, bytes, size, flags);
    errno = EAGAIN;
    return -1;
}
