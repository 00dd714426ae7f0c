/* lk_container.h: from a member to the structure that it stands in. */
#pragma once

#include <stddef.h>

/** The `type` whose `member` is at `at`, which isn't NULL. */
#define LK_CONTAINER(at, type, member) ((type *)(void *)((char *)(uintptr_t)(at)-offsetof(type, member)))
