/* paths.h: names of nodes. */
#pragma once

#include "instance.h"

/* Set the path under which all keys are. */
locker_status lk_zk_root_init(lk_zk *z, const locker_driver_config *config, locker_error *err);
/* The path of the node under which a key's contenders stand. False: too long. */
bool lk_zk_parent_path(const lk_zk *z, const char *key, size_t key_len, char path[LK_ZK_PARENT_MAX]);
/* Whether a child is a contender (ours, Curator's, kazoo's); gives its sequence number. */
bool lk_zk_contender(const char *name, int32_t *sequence);
/* Whether a comes before b in the queue. Ties go by name. */
bool lk_zk_before(int32_t a, const char *a_name, int32_t b, const char *b_name);
/* Whether others may get the same number, or a lower one, later: the server has come to the end of them. */
bool lk_zk_used_up(int32_t sequence);
/* The name that create is given for a node of ours, to which the server appends its number: it has 128 random bits plus
 * a counter, as a UUID's text, so that no other attempt anywhere has it. */
void lk_zk_stem_begin(lk_zk *z, uint64_t random);
void lk_zk_stem(const lk_zk *z, uint64_t id, char stem[LK_ZK_STEM_LEN + 1]);
/* ... and with the number. */
void lk_zk_name(const lk_zk *z, uint64_t id, int32_t sequence, char name[LK_ZK_NAME_MAX]);
/* path = parent/name. False: it is too long; path is not set. */
bool lk_zk_join(char path[LK_ZK_PATH_MAX], const char *parent, const char *name);
/* Whether a name, or a path, is one of this locker's, of whichever session: as far as its id; as a whole. */
bool lk_zk_own_id(const lk_zk *z, const char *name, uint64_t *id);
bool lk_zk_is_own(const lk_zk *z, const char *name, uint64_t *id, int32_t *sequence);
