/* commands.h: what the table of commands (table.c) calls, by file. */
#pragma once

typedef struct lk_sr_call lk_sr_call;

/* strings.c */
void lk_sr_get(lk_sr_call *call);
void lk_sr_set(lk_sr_call *call);
void lk_sr_setnx(lk_sr_call *call);
void lk_sr_msetnx(lk_sr_call *call);
void lk_sr_incr(lk_sr_call *call);
void lk_sr_incrby(lk_sr_call *call);
void lk_sr_decr(lk_sr_call *call);
void lk_sr_decrby(lk_sr_call *call);

/* keys.c */
void lk_sr_del(lk_sr_call *call);
void lk_sr_exists(lk_sr_call *call);
void lk_sr_type(lk_sr_call *call);
void lk_sr_expire(lk_sr_call *call);
void lk_sr_expireat(lk_sr_call *call);
void lk_sr_pexpire(lk_sr_call *call);
void lk_sr_pexpireat(lk_sr_call *call);
void lk_sr_persist(lk_sr_call *call);
void lk_sr_ttl(lk_sr_call *call);
void lk_sr_pttl(lk_sr_call *call);
void lk_sr_pexpiretime(lk_sr_call *call);
void lk_sr_dbsize(lk_sr_call *call);
void lk_sr_flushall(lk_sr_call *call);
void lk_sr_flushdb(lk_sr_call *call);

/* sorted_sets.c */
void lk_sr_zadd(lk_sr_call *call);
void lk_sr_zrem(lk_sr_call *call);
void lk_sr_zscore(lk_sr_call *call);
void lk_sr_zrank(lk_sr_call *call);
void lk_sr_zrange(lk_sr_call *call);
void lk_sr_zcard(lk_sr_call *call);
void lk_sr_zcount(lk_sr_call *call);
void lk_sr_zrangebyscore(lk_sr_call *call);
void lk_sr_zpopmin(lk_sr_call *call);

/* collections.c */
void lk_sr_lpush(lk_sr_call *call);
void lk_sr_llen(lk_sr_call *call);
void lk_sr_lpop(lk_sr_call *call);
void lk_sr_hset(lk_sr_call *call);
void lk_sr_hget(lk_sr_call *call);
void lk_sr_hdel(lk_sr_call *call);
void lk_sr_hlen(lk_sr_call *call);
void lk_sr_hexists(lk_sr_call *call);
void lk_sr_hincrby(lk_sr_call *call);

/* publish.c */
void lk_sr_publish(lk_sr_call *call);
void lk_sr_subscribe(lk_sr_call *call);
void lk_sr_unsubscribe(lk_sr_call *call);
void lk_sr_pubsub_numsub(lk_sr_call *call);

/* cluster.c */
void lk_sr_asking(lk_sr_call *call);
void lk_sr_cluster_countkeysinslot(lk_sr_call *call);
void lk_sr_cluster_keyslot(lk_sr_call *call);
void lk_sr_cluster_myid(lk_sr_call *call);
void lk_sr_cluster_setslot(lk_sr_call *call);
void lk_sr_cluster_slots(lk_sr_call *call);

/* scripts.c */
void lk_sr_eval(lk_sr_call *call);
void lk_sr_evalsha(lk_sr_call *call);
void lk_sr_script_load(lk_sr_call *call);
void lk_sr_script_exists(lk_sr_call *call);
void lk_sr_script_flush(lk_sr_call *call);
void lk_sr_script_kill(lk_sr_call *call);

/* login.c */
void lk_sr_auth(lk_sr_call *call);
void lk_sr_hello(lk_sr_call *call);
void lk_sr_acl_setuser(lk_sr_call *call);
void lk_sr_acl_whoami(lk_sr_call *call);
void lk_sr_select(lk_sr_call *call);
void lk_sr_ping(lk_sr_call *call);
void lk_sr_echo(lk_sr_call *call);
void lk_sr_quit(lk_sr_call *call);

/* clients.c */
void lk_sr_wait(lk_sr_call *call);
void lk_sr_client_id_command(lk_sr_call *call);
void lk_sr_client_setname(lk_sr_call *call);
void lk_sr_client_getname(lk_sr_call *call);
void lk_sr_client_pause(lk_sr_call *call);
void lk_sr_client_unpause(lk_sr_call *call);
void lk_sr_client_kill(lk_sr_call *call);

/* info.c */
void lk_sr_info(lk_sr_call *call);
void lk_sr_time(lk_sr_call *call);
void lk_sr_role(lk_sr_call *call);
void lk_sr_replicaof(lk_sr_call *call);
void lk_sr_config_set(lk_sr_call *call);
