/* paths.h: names of nodes. */
#pragma once

#include "instance.h"

/* Set the path under which all keys are. */
locker_status lk_zk_root_init(lk_zk *z, const locker_driver_config *config, locker_error *err);
/* The path of the node under which a key's contenders stand. False: too long. */
bool lk_zk_parent_path(const lk_zk *z, const char *key, size_t key_len, char path[LK_ZK_PARENT_MAX]);
/* Where those who want one of a key's permits queue, and where the permits are that are taken: below its node, as those of
 * Curator's InterProcessSemaphoreV2. */
#define LK_ZK_LOCKS  "locks"
#define LK_ZK_LEASES "leases"
/* The path of the permits, from that of the queue; and of the key's node, from that of either. Answers its end. */
char *lk_zk_permits_path(const char *queue, char path[LK_ZK_PATH_MAX]);
char *lk_zk_key_path(const char *below, char path[LK_ZK_PATH_MAX]);
/* Whether a child of a key's node is one of the two. */
bool lk_zk_is_of_permits(const char *name);
/* Whether a child is a contender (ours, Curator's, kazoo's), and whom it excludes; gives its sequence number. */
typedef enum { LK_ZK_NO_CONTENDER, LK_ZK_EXCLUDES, LK_ZK_SHARES } lk_zk_kind;
lk_zk_kind lk_zk_contender(const char *name, int32_t *sequence);
/* Whether a comes before b in the queue. Ties go by name. */
bool lk_zk_before(int32_t a, const char *a_name, int32_t b, const char *b_name);
/* Whether others may get the same number, or a lower one, later: the server has come to the end of them. */
bool lk_zk_used_up(int32_t sequence);
/* The name that create is given for a node of ours, to which the server appends its number: it has 128 random bits plus
 * a counter, as a UUID's text, so that no other attempt anywhere has it. lk_zk_stem returns its end. */
void lk_zk_stem_begin(lk_zk *z, uint64_t random);
char *lk_zk_stem(const lk_zk *z, uint64_t id, const char *tail, char stem[LK_ZK_NAME_MAX]);
/* ... and with the number. */
void lk_zk_name(const lk_zk *z, uint64_t id, const char *tail, int32_t sequence, char name[LK_ZK_NAME_MAX]);
/* What such a name is for: what stands between its stem and its number. False: it is too long for one of ours. */
bool lk_zk_tail(const char *name, char tail[LK_ZK_TAIL_MAX]);
/* What the place of a claim is for. */
void lk_zk_tail_of(const lk_zk *z, const locker_claim *claim, char tail[LK_ZK_TAIL_MAX]);
/* The name of a permit that is taken. */
void lk_zk_permit_name(const lk_zk *z, uint64_t id, int32_t permits, int32_t slot, char name[LK_ZK_NAME_MAX]);
/* How many permits one of ours, whosesoever, says that its key has, and which of them (-1: it stands in the queue). False: it
 * is a foreign client's, which doesn't say. */
bool lk_zk_read_permit(const char *name, int32_t *permits, int32_t *slot);
/* True if the name is that of a permit that is taken: ours, or Curator's. */
bool lk_zk_is_permit(const char *name);
/* The names of contenders, by that of the setting; false: there is none. */
bool lk_zk_names_set(lk_zk *z, const char *setting);
/* path = parent/name. False: it is too long; path is not set. */
bool lk_zk_join(char path[LK_ZK_PATH_MAX], const char *parent, const char *name);
/* Whether a name, or a path, is one of this locker's, of whichever session: as far as its id; as a whole. */
bool lk_zk_own_id(const lk_zk *z, const char *name, uint64_t *id);
bool lk_zk_is_own(const lk_zk *z, const char *name, uint64_t *id, int32_t *sequence);
