/* path.h: paths of nodes. */
#pragma once

#include <stdbool.h>

/* As PathUtils.validatePath does. */
bool lk_simzk_path_is_valid(const char *path);
/* One of the server's own, which can't be deleted. */
bool lk_simzk_path_is_special(const char *path);
/* The parent's path, malloc'ed: "/" is "/x"'s; NULL: there is no slash in it. */
char *lk_simzk_path_parent(const char *path);
/* What is behind the last slash. */
const char *lk_simzk_path_name(const char *path);
