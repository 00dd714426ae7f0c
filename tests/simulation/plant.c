/* plant.c: see plant.h. */
#include "plant.h"

#include <string.h>

#include "simulation/zookeeper/path.h"
#include "simulation/zookeeper/tree.h"

lk_simzk_stat __real_lk_simzk_tree_stat(const lk_simzk_node *node);
lk_simzk_stat __wrap_lk_simzk_tree_stat(const lk_simzk_node *node);
void __real_lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent);
void __wrap_lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent);
bool __real_lk_simzk_path_is_valid(const char *path);
bool __wrap_lk_simzk_path_is_valid(const char *path);

static const char *const names[] = {"",
                                    "plain-cversion", /* deletions are not counted as changes of the parent */
                                    "deaf-parent",    /* who watches children isn't told of a deletion */
                                    "any-path"};      /* every name will do */
enum { PLAIN_CVERSION = 1, DEAF_PARENT, ANY_PATH, COUNT };

static int planted;

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
