/*
 * redis_words.c: see redis_words.h.
 *
 * A command is a line of words, in which stands for:
 *   %k key  %q its queue  %i its info  %F where earlier releases count (the same key all along the line)  %f the counter
 *   %K any key
 *   %v value  %V the same all along the line  %m member of a queue  %M with that value  %t time to live in ms
 *   %u time-out in ms, hardly ever the same, because of several clients whose time ends at once it is chance
 *   who goes on first  %n number  %s score  %c channel  %x field  %b 0 or 1  %o count of numbers
 *   %l the script's last argument  %d how long a lock was handed on  %a time in ms, of the clock  %w password
 *   %p number of a connection  %A %R %E %W %S %B the driver's scripts  %Ah ... their names  %L a small script
 *   %C compare-and-delete of a rival  %Y %Z %X %U %J the driver's scripts of locks that several hold  %G member that wants to share
 *   %g the set of marker number 5
 */
#include "redis_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/scripts.h"

uint64_t draw(drawing *d, uint64_t below)
{
    uint64_t z = d->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % below;
}

#define DRAW(d, list) (list)[draw(d, sizeof(list) / sizeof((list)[0]))]

/* ------------------------------------------------------------------ lines ---- */

static const char *const of_locks[] = {
    "SET %k %v NX PX %t",
    "SET %k %v NX PX %t",
    "SET %k %v PX %t",
    "GET %k",
    "DEL %k",
    "PTTL %k",
    "SET %f 5 NX EX 604800",
    "INCR %f",
    "INCRBY %f 64",
    "EVAL %A 4 %k %q %f %F %V %t %M 60000 %o %b %b %l",
    "EVALSHA %Ah 4 %k %q %f %F %V %t %M 60000 %o %b %b %l",
    "EVALSHA %Ah 4 %k %q %f %F %V %t %M 60000 %o %b %b %l",
    "EVALSHA %Ah 4 %k %q %f %F %V %t %M 60000 %o %b %b %l",
    "EVAL %R 3 %k %q %f %V %M %d %l",
    "EVALSHA %Rh 3 %k %q %f %v %m %d %l",
    "EVALSHA %Rh 4 %k %q %f %i %v %m %d %l",
    "EVALSHA %Rh 4 %k %q %f %i %v  0 %l",
    "EVALSHA %Rh 3 %k %q %f %v  %d %l",
    "EVALSHA %Rh 3 %k %q %f %v  0 %l",
    "EVALSHA %Rh 3 %k %q %f %v  0 %l",
    "EVALSHA %Rh 3 %k %q %f %v  0 %l",
    "EVALSHA %Rh 3 %k %q %f %v  0 %l",
    "EVALSHA %Rh 3 %k %q %f %v  0 %l",
    "EVALSHA %Rh 3 %k %q %f %v  0 %l",
    "EVALSHA %Ah 4 %k %q %f %F %V 60000 %M 60000 1 0 0 %l",
    "EVALSHA %Ah 4 %k %q %f %F %V 60000 %M 60000 1 0 0 %l",
    "EVALSHA %Ah 4 %k %q %f %F %V 60000 %M 60000 1 0 0 %l",
    "EVALSHA %Ah 4 %k %q %f %F %V 60000 %M 60000 1 0 0 %l",
    "EVALSHA %Ah 4 %k %q %f %F %V 60000 %M 60000 1 0 0 %l",
    "EVALSHA %Eh 2 %k %i %v %t",
    "EVAL %E 4 %k %i %K %K %v%v %t %t",
    "EVALSHA %Wh 2 %k %q 60000 %M",
    "EVALSHA %Wh 2 %k %q 60000 %M",
    "EVALSHA %Wh 2 %k %q 60000 %m",
    "EVAL %W 4 %k %q %K %K 60000 %m %M",
    "EVALSHA %Sh 4 %k %q %f %i",
    "EVAL %S 4 %k %q %f %i",
    "EVAL %B 4 %k %q %f %i %v 1 %l",
    "EVALSHA %Bh 4 %k %q %f %i %v %l",
    "EVAL %N 2 %k %i %v %j",
    "EVAL %C 1 %k %v",
    "SCRIPT LOAD %A",
    "SCRIPT LOAD %R",
    "SCRIPT LOAD %E",
    "SCRIPT LOAD %W",
    "SCRIPT LOAD %S",
    "SCRIPT LOAD %B",
    "SUBSCRIBE %c",
    "UNSUBSCRIBE %c",
    "PUBLISH %c %v",
    "TIME",
    "PING",
    "WAIT 0 0",
    "HELLO 2",
};

static const char *const of_shares[] = {
    "EVAL %Y 4 %k %q %f %F %G %b 60000 %b %l",
    "EVALSHA %Yh 4 %k %q %f %F %G 1 60000 0 0",
    "EVALSHA %Yh 4 %k %q %f %F %G 1 60000 0 0",
    "EVALSHA %Yh 4 %k %q %f %F %G 0 60000 0 0",
    "EVALSHA %Yh 4 %k %q %f %F %G 1 60000 1 %l",
    "EVAL %Z 3 %k %q %f %v  %d %l",
    "EVALSHA %Zh 3 %k %q %f %v  0 0",
    "EVALSHA %Zh 3 %k %q %f %v  0 0",
    "EVALSHA %Zh 3 %k %q %f %V %G 0 %l",
    "EVAL %X 4 %k %q %K %K %v%v %t %t",
    "EVALSHA %Xh 2 %k %q %v %t",
    "EVAL %U 3 %k %q %f      0",
    "EVALSHA %Uh 3 %k %q %f   %t %v %n 0",
    "EVAL %J 3 %k %q %f S5 %v %l",
    "EVALSHA %Jh 3 %k %q %f P5/2 %v%V %l",
    "SET %k S5 PX 30000",
    "SET %k P5/2 PX 30000",
    "ZADD %g %a %v",
    "ZRANGE %g 0 -1 WITHSCORES",
    "PTTL %g",
};

static const char *const of_keys[] = {
    "SET %K %n",
    "SET %K %v XX",
    "SET %K %v NX GET",
    "SET %K %v GET",
    "SET %K %v EX %n",
    "SET %K %v PX %n",
    "SET %K %v PXAT %a",
    "SET %K %v EXAT %n",
    "SET %K %v KEEPTTL",
    "SET %K %v PX %t EX 5",
    "SET %K %v NX XX",
    "SET %K %v nx px %t",
    "SETNX %K %v",
    "MSETNX %K %v %K %v",
    "MSETNX %K %v %K",
    "GET %K",
    "GET %K",
    "DEL %K %K",
    "UNLINK %K",
    "EXISTS %K %K",
    "TYPE %K",
    "INCR %K",
    "DECR %K",
    "INCRBY %K %n",
    "DECRBY %K %n",
    "PEXPIRE %K %n",
    "PEXPIRE %K %t",
    "PEXPIRE %K %t GT",
    "PEXPIRE %K %t NX",
    "PEXPIRE %K %t XX LT",
    "PEXPIRE %K %t NX GT",
    "PEXPIRE %K %t LT GT",
    "PEXPIRE %K %t SOON",
    "PEXPIREAT %K %a",
    "EXPIRE %K %n",
    "EXPIRE %K 10",
    "EXPIREAT %K %n",
    "PERSIST %K",
    "TTL %K",
    "PTTL %K",
    "PEXPIRETIME %K",
    "ZADD %K %s %v",
    "ZADD %K NX %s %m",
    "ZADD %K %s a %s b %s c",
    "ZADD %K XX CH %s a",
    "ZADD %K GT CH %s a",
    "ZADD %K LT %s a",
    "ZADD %K INCR %s a",
    "ZADD %K NX INCR %s b",
    "ZADD %K NX XX %s b",
    "ZADD %K GT LT %s b",
    "ZADD %K INCR 1 a 2 b",
    "ZADD %K %s %x",
    "ZREM %K %v a",
    "ZREM %K a b c",
    "ZSCORE %K a",
    "ZSCORE %K %m",
    "ZRANK %K a",
    "ZRANK %K %m",
    "ZRANGE %K 0 2",
    "ZRANGE %K 0 -1 WITHSCORES",
    "ZRANGE %K -2 %n",
    "ZRANGE %K %n %n",
    "ZCARD %K",
    "ZCOUNT %K %s %s",
    "ZCOUNT %K -inf +inf",
    "ZCOUNT %K (1 %n",
    "ZRANGEBYSCORE %K %s %s",
    "ZRANGEBYSCORE %K 0 1e300 LIMIT 0 1000",
    "ZRANGEBYSCORE %K -inf inf WITHSCORES",
    "ZRANGEBYSCORE %K -inf inf LIMIT %n %n",
    "ZRANGEBYSCORE %K -inf (inf WITHSCORES LIMIT 1 2",
    "ZRANGEBYSCORE %K 1 2 LIMIT 1",
    "ZPOPMIN %K",
    "ZPOPMIN %K %n",
    "ZPOPMIN %K 2",
    "LPUSH %K %v %x",
    "LLEN %K",
    "LPOP %K",
    "HSET %K %x %v",
    "HSET %K %x 1 %x",
    "HSET %K %x 5 %x %n",
    "HGET %K %x",
    "HDEL %K %x %x",
    "HLEN %K",
    "HEXISTS %K %x",
    "HINCRBY %K %x %n",
    "HINCRBY %K %x -1",
    "SELECT %b",
    "SELECT %n",
    "FLUSHDB",
    "FLUSHALL",
    "FLUSHALL SYNC",
    "FLUSHDB LATER",
    "TIME",
    "PING",
    "PING %v",
    "ECHO %v",
    "SUBSCRIBE %c %c",
    "UNSUBSCRIBE %c",
    "PUBLISH %c %v",
    "PUBSUB NUMSUB %c %c",
};

static const char *const of_scripts[] = {
    "EVAL %L 0",
    "EVAL %L 1 %K",
    "EVAL %L 1 %K %v",
    "EVAL %L 1 %K %n",
    "EVAL %L 2 %K %K %n %s",
    "EVAL %L 1 %K %v %n",
    "EVAL %L %n %K",
    "EVALSHA %v 0",
    "EVALSHA %v%v 0",
    "EVALSHA %Ah %n %k",
    "EVALSHA 0123456789012345678901234567890123456789 0",
    "SCRIPT EXISTS %Ah %Rh %v",
    "SCRIPT FLUSH",
    "SCRIPT FLUSH NOW",
    "SCRIPT LOAD %L",
    "SCRIPT KILL",
    "SET %K %n",
    "SET %K %v PX %t",
    "ZADD %K %s a %s b",
    "HSET %K %x %v",
    "LPUSH %K %v",
    "GET %K",
    "TYPE %K",
    "DEL %K",
};

static const char *const of_faults[] = {
    "CONFIG SET maxmemory 1",
    "CONFIG SET maxmemory 1",
    "CONFIG SET maxmemory 0",
    "CONFIG SET maxmemory %v",
    "CONFIG SET min-replicas-to-write 1",
    "CONFIG SET min-replicas-to-write 0",
    "CONFIG SET maxmemory",
    "CONFIG SET replica-serve-stale-data no",
    "CONFIG SET replica-serve-stale-data yes",
    "CONFIG SET replica-serve-stale-data %b",
    "EVAL %L 1 %K %v",
    "REPLICAOF 127.0.0.1 1",
    "REPLICAOF 127.0.0.1 %n",
    "REPLICAOF NO ONE",
    "REPLICAOF NO ONE",
    "CLIENT PAUSE %p WRITE",
    "CLIENT PAUSE 20",
    "CLIENT PAUSE %n",
    "CLIENT PAUSE 5 NONE",
    "CLIENT UNPAUSE",
    "CLIENT UNPAUSE",
    "WAIT 1 %u",
    "WAIT %o %u",
    "WAIT 1.5 5",
    "WAIT 1 abc",
    "WAIT 1 -5",
    "WAIT 2 0",
    "CLIENT KILL ID %p",
    "CLIENT KILL ID %p SKIPME no",
    "CLIENT KILL ID 99999%n", /* nobody: the servers have other connections than these */
    "CLIENT KILL TYPE pubsub ID %p",
    "CLIENT KILL TYPE %v",
    "CLIENT KILL 1.2.3.4:5",
    "CLIENT KILL ID %p TYPE",
    "CLIENT ID",
    "CLIENT SETNAME %x",
    "CLIENT SETNAME %m",
    "CLIENT GETNAME",
    "QUIT",
};

static const char *const of_rights[] = {
    "ACL SETUSER app on >pw ~* &* +@all",
    "ACL SETUSER app on >pw ~a* resetchannels +@all",
    "ACL SETUSER app reset on >pw ~* &locker:* +@all -@scripting",
    "ACL SETUSER app -@dangerous",
    "ACL SETUSER app -get -set",
    "ACL SETUSER app +get",
    "ACL SETUSER app -script",
    "ACL SETUSER app -script|load",
    "ACL SETUSER app -info -hello -role",
    "ACL SETUSER app -time",
    "ACL SETUSER app resetkeys ~{a}* ~b",
    "ACL SETUSER app off",
    "ACL SETUSER app nopass",
    "ACL SETUSER app >other",
    "ACL SETUSER app wrong",
    "ACL SETUSER default -@write",
    "ACL SETUSER default +@all",
    "ACL SETUSER default -eval",
    "ACL SETUSER default -publish",
    "ACL SETUSER default -incr -zadd",
    "ACL SETUSER default off",
    "ACL SETUSER default on",
    "CONFIG SET requirepass %w",
    "AUTH app pw",
    "AUTH app %w",
    "AUTH %w",
    "AUTH app pw more",
    "AUTH nobody %w",
    "HELLO 2 AUTH app pw",
    "HELLO 2 AUTH app %w SETNAME me",
    "HELLO",
    "HELLO two",
    "HELLO 1",
    "HELLO 2 MORE",
    "ACL WHOAMI",
    "PING",
    "GET %k",
    "SET %k %v",
    "MSETNX %K 1 %K 2",
    "CLIENT KILL USER app",
    "CLIENT KILL USER nobody",
    "CLIENT ID",
};

static const struct {
    const char *const *lines;
    size_t count;
} themes[THEMES] = {
    [THEME_LOCKS] = {of_locks, sizeof of_locks / sizeof of_locks[0]},
    [THEME_SHARES] = {of_shares, sizeof of_shares / sizeof of_shares[0]},
    [THEME_KEYS] = {of_keys, sizeof of_keys / sizeof of_keys[0]},
    [THEME_SCRIPTS] = {of_scripts, sizeof of_scripts / sizeof of_scripts[0]},
    [THEME_FAULTS] = {of_faults, sizeof of_faults / sizeof of_faults[0]},
    [THEME_RIGHTS] = {of_rights, sizeof of_rights / sizeof of_rights[0]},
};

/* ------------------------------------------------------------------ what stands in them ---- */

static const char *const keys[] = {"a", "b", "ab"};
static const char *const values[] = {"00000000000000010000000000000001", "00000000000000010000000000000002",
                                     "00000000000000010000000000000003", "value"};
static const char *const instances[] = {"0123456789abcdef0123456789abcdef",
                                        "fedcba9876543210fedcba9876543210"};
static const char *const numbers[] = {"0",
                                      "1",
                                      "2",
                                      "-1",
                                      "5",
                                      "100",
                                      "60000",
                                      "abc",
                                      "",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "01",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.5",
                                      "1e3",
                                      "nan",
                                      "inf",
                                      "-0",
                                      "9223372036854775808",
                                      "99999999999999999999999",
                                      "10000",
                                      "-60",
                                      "65535",
                                      "16",
                                      "4096",
                                      "3",
                                      "0x10",
                                      "7",
                                      "-inf"};
static const char *const scores[] = {
    "0",   "1", "2",  "-1", "1.5",   "3.14159265358979", "1e300", "inf", "-inf", "0.1", "-2.5", "1e-9", "nan",
    "abc", "",  "(1", "(",  "1e999", "4503599627370497"};
static const char *const times[] = {"1", "5", "20", "1000", "30000", "60000", "3600000"};
static const char *const fields[] = {"x", "y", "00000000000000010000000000000001:1"};
static const char *const counts[] = {"0", "1", "64", "1"};
static const char *const bits[] = {"0", "1"};
static const char *const direct[] = {"0", "0", "1000", "400000", "900000", "1e15", "x"};
static const char *const passwords[] = {"pw", "other", "secret", "%%"};

/* Compare-and-delete, as rivals have it. */
static const char *const rivals[] = {
    "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end",
    "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then\n    return 0\nend\n"
    "redis.call('del', KEYS[1])\nreturn 1\n",
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil; end; "
    "if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then redis.call('pexpire', KEYS[1], 30000); return 0; "
    "else redis.call('del', KEYS[1]); redis.call('publish', 'gone', '0'); return 1; end; return nil;",
    "local set = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) return set",
};

static const char *const small_scripts[] = {
    "return {1, 2, {3, 'x', {}}, nil, 4}",
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('INCR', KEYS[1])",
    "return redis.call('INCR', KEYS[1])",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('-MY error')",
    "return redis.error_reply('short')",
    "return redis.status_reply('fine\\r\\nindeed')",
    "return redis.status_reply(1)",
    "return {err='E with\\r\\nlines'}",
    "return {ok='y'}",
    "return {err=5}",
    "error('boom')",
    "\n\nerror('boom', 0)",
    "error({err='E of a table'})",
    "return nosuch",
    "nosuch = 1",
    "local x = nil\nreturn x.y",
    "return 3.99",
    "return -3.99",
    "return 2^53",
    "return -1e300",
    "return 0/0",
    "return tostring(2^53)",
    "return tostring(0.1)",
    "return string.format('%.0f', 2^53 + 2)",
    "return redis.sha1hex(ARGV[1] or '')",
    "return redis.sha1hex()",
    "return 1 +",
    "return redis.call('NOSUCH')",
    "return redis.pcall('NOSUCH')",
    "return redis.call('GET')",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.pcall('EVAL', 'return 1', 0)",
    "local a, b = pcall(redis.call, 'LPUSH', KEYS[1], 'e') return {tostring(a), b}",
    "local a, b = pcall(error, 'plain') return {tostring(a), b}",
    "local a, b = pcall(error, {1}) return {tostring(a), type(b)}",
    "local a, b, c = pcall(function() return 1, 2 end) return {tostring(a), b, c}",
    "return redis.call()",
    "return redis.pcall('GET', {})",
    "return redis.pcall('GET', nil)",
    "return {true, false, 1}",
    "return {1, {err='inner'}, {ok='inner'}}",
    "return true",
    "return false",
    "return",
    "",
    "return redis.call('PTTL', KEYS[1])",
    "redis.call('SET', KEYS[1], ARGV[1]) error('half')",
    "redis.call('SET', KEYS[1], ARGV[1])\nreturn redis.call('LPUSH', KEYS[1], 1)",
    "return type(redis.call('GET', KEYS[1]))",
    "return redis.call('TIME')",
    "return redis.call('ZRANGEBYSCORE', KEYS[1], 0, 1e18)",
    "return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', 'inf', 'WITHSCORES')",
    "local r = redis.pcall('ZPOPMIN', KEYS[1]) return {#r, r[1], r[2], r.err}",
    "local a, b = unpack(redis.pcall('ZPOPMIN', KEYS[1])) return {type(a), b}",
    "redis.call('SELECT', 3) redis.call('SET', KEYS[1], 'three') return redis.call('GET', KEYS[1])",
    "return loadstring('return 7')()",
    "return {redis.call('SET', KEYS[1], 1.5), redis.call('GET', KEYS[1])}",
    "return {redis.call('SET', KEYS[1], 10), redis.call('GET', KEYS[1])}",
    "return redis.call('SET', KEYS[1], 2^60 + 0.5)",
    "local t = {} for i = 1, 10 do t[i] = i end return {unpack(t, 3, 5)}",
    "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], #KEYS, #ARGV}",
    "return tonumber(ARGV[1])",
    "return {tostring(tonumber(ARGV[1]))}",
    "return string.match(ARGV[1] or '', '^(%x+)')",
    "redis.call('INCR', KEYS[1]) return redis.call('INCRBY', KEYS[1], 5)",
    "local s = redis.call('SET', KEYS[1], 'v', 'NX') return {type(s), s}",
    "local s = redis.pcall('SET', KEYS[1], 'v', 'PX', ARGV[1]) return s",
    "return redis.pcall('EXPIRE', KEYS[1], ARGV[1])",
    "return redis.call('PUBLISH', 'locker:wake:0123456789abcdef0123456789abcdef', 'by a script')",
    "return {redis.call('DEL', KEYS[1]), redis.call('EXISTS', KEYS[1]), redis.call('TYPE', KEYS[1])}",
    "redis.log(redis.LOG_WARNING)",
    "return redis.replicate_commands()",
    "return pcall",
    "return _VERSION",
    "print('x')",
    "return type(redis)",
    "return math.floor(-3.5)",
    "return table.concat({1, 2, 3.5}, ',')",
    "for i = 1, 3 do redis.call('LPUSH', KEYS[1], i) end return redis.call('LLEN', KEYS[1])",
    "return redis.call('HGET', KEYS[1], 'x')",
    "return redis.call('WAIT', 0, 0)",
    "return redis.call('PING')",
    "return redis.call('ECHO', 'a\\0b')",
    "return 'a\\0b\\r\\n'",
};

static const char *driver_script(char which)
{
    return which == 'A'   ? lk_redis_one_text[LK_REDIS_SCRIPT_ACQUIRE]
           : which == 'R' ? lk_redis_one_text[LK_REDIS_SCRIPT_RELEASE]
           : which == 'E' ? lk_redis_one_text[LK_REDIS_SCRIPT_RENEW]
           : which == 'W' ? lk_redis_one_text[LK_REDIS_SCRIPT_WAIT]
           : which == 'S' ? lk_redis_one_text[LK_REDIS_SCRIPT_SHOW]
           : which == 'B' ? lk_redis_one_text[LK_REDIS_SCRIPT_BREAK]
           : which == 'Y' ? lk_redis_one_text[LK_REDIS_SCRIPT_SHARED_ACQUIRE]
           : which == 'Z' ? lk_redis_one_text[LK_REDIS_SCRIPT_SHARED_RELEASE]
           : which == 'U' ? lk_redis_one_text[LK_REDIS_SCRIPT_SHARED_SHOW]
           : which == 'J' ? lk_redis_one_text[LK_REDIS_SCRIPT_SHARED_BREAK]
                          : NULL;
}

static void put_word(lk_sr_bytes *out, const char *word)
{
    lk_sr_put(out, lk_sr_word(word));
}

static const char *counter_of(const drawing *d)
{
    return d->counter != NULL ? d->counter : "locker:fence:{1}";
}

/* As the driver's keys.c names companions. */
static void put_any_key(drawing *d, lk_sr_bytes *out)
{
    static const char *const suffixes[] = {"queue", "fence", "info"};
    if (draw(d, 3) > 0)
        put_word(out, DRAW(d, keys));
    else if (draw(d, 4) == 0)
        put_word(out, counter_of(d));
    else
        lk_sr_print(out, "{%s}:locker:%s", DRAW(d, keys), DRAW(d, suffixes));
}

static void put_member(drawing *d, const char *value, lk_sr_bytes *out)
{
    if (draw(d, 4) == 0)
        return; /* "": not in the queue */
    if (draw(d, 20) == 0)
        put_word(out, "no member at all");
    else
        lk_sr_print(out, "%s %s %s %s an owner", DRAW(d, instances), value, DRAW(d, times), DRAW(d, counts));
}

static void put_sharer(drawing *d, lk_sr_bytes *out)
{
    lk_sr_print(out, "%s%s %s %s %s an owner", draw(d, 3) > 0 ? "S" : "P", DRAW(d, instances), d->value,
                DRAW(d, times), draw(d, 3) > 0 ? "2" : "1");
}

static void put_least(drawing *d, lk_sr_bytes *out)
{
    const uint64_t which = draw(d, 6);
    if (which == 0)
        put_word(out, "x");
    else
        lk_sr_print(out, "%" PRId64,
                    which == 1   ? INT64_C(0)
                    : which == 2 ? d->clock_us + 1000000000
                                 : d->clock_us - 5000);
}

#define LIST(list) (list), sizeof(list) / sizeof((list)[0])

/* What a letter stands for, when that is one of a list. */
static const struct {
    char letter;
    const char *const *list;
    size_t count;
} lists[] = {
    {'t', LIST(times)},         {'n', LIST(numbers)}, {'s', LIST(scores)}, {'x', LIST(fields)},
    {'b', LIST(bits)},          {'o', LIST(counts)},  {'d', LIST(direct)}, {'w', LIST(passwords)},
    {'L', LIST(small_scripts)}, {'C', LIST(rivals)},
};

/* False: it is none of a list. */
static bool put_one_of_list(drawing *d, char letter, lk_sr_bytes *out)
{
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (lists[i].letter != letter)
            continue;
        put_word(out, lists[i].list[draw(d, lists[i].count)]);
        return true;
    }
    return false;
}

/* A key of the line's lock. */
static bool put_key(const drawing *d, char letter, lk_sr_bytes *out)
{
    const char *suffix = letter == 'q' ? "queue" : letter == 'F' ? "fence" : letter == 'i' ? "info" : NULL;
    if (letter == 'k')
        put_word(out, d->key);
    else if (letter == 'f')
        put_word(out, counter_of(d));
    else if (suffix != NULL)
        lk_sr_print(out, "{%s}:locker:%s", d->key, suffix);
    return letter == 'k' || letter == 'f' || suffix != NULL;
}

static void put_drawn(drawing *d, char letter, lk_sr_bytes *out)
{
    if (put_key(d, letter, out) || put_one_of_list(d, letter, out))
        return;
    if (letter == 'K')
        put_any_key(d, out);
    else if (letter == 'V')
        put_word(out, d->value);
    else if (letter == 'v')
        put_word(out, draw(d, 8) > 0 ? values[draw(d, 5) / 2] : "value");
    else if (letter == 'M')
        put_member(d, d->value, out);
    else if (letter == 'G')
        put_sharer(d, out);
    else if (letter == 'g')
        lk_sr_print(out, "{%s}:locker:shared:5", d->key);
    else if (letter == 'm')
        put_member(d, values[draw(d, 3)], out);
    else if (letter == 'j')
        lk_sr_print(out, "%s 1700000000000 7 %s me", values[draw(d, 3)], DRAW(d, instances));
    else if (letter == 'c')
        lk_sr_print(out, "locker:wake:%s", DRAW(d, instances));
    else if (letter == 'u')
        lk_sr_print(out, "%" PRIu64, 1 + draw(d, 30000));
    else if (letter == 'l')
        put_least(d, out);
    else if (letter == 'a')
        lk_sr_print(out, "%" PRId64, d->clock_us / 1000 + (int64_t)draw(d, 40) - 10);
    else if (letter == 'p')
        lk_sr_print(out, "%" PRId64, d->first_client + (int64_t)draw(d, 4));
    else
        put_word(out, lk_redis_note_text);
}

/* One word of a line. */
static void put_template(drawing *d, const char *word, size_t len, lk_sr_bytes *out)
{
    for (size_t i = 0; i < len; i++) {
        const char *script = word[i] == '%' && i + 1 < len ? driver_script(word[i + 1]) : NULL;
        if (word[i] != '%' || i + 1 == len) {
            lk_sr_put(out, (lk_sr_text){word + i, 1});
        } else if (script != NULL && i + 2 < len && word[i + 2] == 'h') {
            char hash[LK_SR_SHA1_LEN + 1];
            lk_sr_sha1(lk_sr_word(script), hash);
            put_word(out, hash);
            i += 2;
        } else if (script != NULL) {
            put_word(out, script);
            i++;
        } else {
            put_drawn(d, word[++i], out);
        }
    }
}

/* ------------------------------------------------------------------ commands ---- */

void words_make(drawing *d, const char *line, words *w)
{
    words_clear(w);
    d->key = draw(d, 3) > 0 ? keys[0] : DRAW(d, keys);
    d->value = values[draw(d, 5) / 2];
    while (*line != '\0') {
        const size_t len = strcspn(line, " ");
        put_template(d, line, len, &w->at[w->count++]);
        line += len + (line[len] == ' ');
    }
}

/* Some are left alone. WAIT: of a number of replicas beyond 31 bits Redis looks at the lower 32 now and then.
 * HELLO: 3 is another protocol, which the simulated server does not speak. UNSUBSCRIBE alone leaves channels
 * in any order. ACL's user: there is to be none but `app`, who is removed before the next sequence. */
static bool may_be_spoilt(const words *w, size_t at)
{
    const lk_sr_text name = lk_sr_view(&w->at[0]);
    return !lk_sr_is(name, "wait") && !lk_sr_is(name, "hello") && !lk_sr_is(name, "unsubscribe") &&
           !(lk_sr_is(name, "acl") && at == 2);
}

/* Something is wrong with it: a word too few or too many, another word, other letters. */
static void spoil(drawing *d, words *w)
{
    const size_t at = draw(d, w->count);
    if (!may_be_spoilt(w, at))
        return;
    switch (draw(d, 4)) {
    case 0:
        lk_sr_bytes_free(&w->at[--w->count]);
        break;
    case 1:
        put_word(&w->at[w->count++], DRAW(d, numbers));
        break;
    case 2:
        lk_sr_bytes_set(&w->at[at], lk_sr_word(DRAW(d, numbers)));
        break;
    default:
        for (size_t i = 0; i < w->at[0].len; i++)
            w->at[0].data[i] = (char)(w->at[0].data[i] ^ (w->at[0].data[i] > '@' ? 0x20 : 0));
    }
}

void words_draw(drawing *d, words *w)
{
    const theme from = draw(d, 3) == 0 ? THEME_LOCKS : d->theme;
    const char *line;
    do
        line = themes[from].lines[draw(d, themes[from].count)];
    while (d->locks_only && strncmp(line, "HELLO", 5) == 0); /* that tells the version */
    words_make(d, line, w);
    if (draw(d, 40) == 0)
        spoil(d, w);
    if (w->count == 0)
        put_word(&w->at[w->count++], "PING");
}

const char *words_raw(drawing *d)
{
    static const char many_words[] =
        "*11\r\n$4\r\nPING\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n"
        "$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n$1\r\n0\r\n";
    static const char *const raws[] = {
        "PING\r\n",
        "  get   a \r\n",
        "ECHO x\n",
        "\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*abc\r\n",
        "*2147483648\r\n",
        "*2\r\n$3\r\nGET\r\n#1\r\na\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$abc\r\n",
        "*1\r\n$999999999999\r\n",
        "*2\r\n$4\r\nECHO\r\n$2\r\nabXX", /* that what follows is a line's end is not looked at */
        many_words,
    };
    return DRAW(d, raws);
}

void words_put(const words *w, lk_sr_bytes *out)
{
    lk_sr_print(out, "*%zu\r\n", w->count);
    for (size_t i = 0; i < w->count; i++) {
        lk_sr_print(out, "$%zu\r\n", w->at[i].len);
        lk_sr_put(out, lk_sr_view(&w->at[i]));
        put_word(out, "\r\n");
    }
}

/* A driver's script by its letter: it would be all that is seen. */
static bool print_script(lk_sr_text word, lk_sr_bytes *out)
{
    for (const char *letter = "AREWSB"; *letter != '\0'; letter++) {
        if (lk_sr_same(word, lk_sr_word(driver_script(*letter)))) {
            lk_sr_print(out, " %%%c", *letter);
            return true;
        }
    }
    return false;
}

void words_print(const words *w, lk_sr_bytes *out)
{
    for (size_t i = 0; i < w->count; i++) {
        if (print_script(lk_sr_view(&w->at[i]), out))
            continue;
        put_word(out, i > 0 ? " \"" : "\"");
        lk_sr_put(out, lk_sr_view(&w->at[i]));
        put_word(out, "\"");
    }
}

void words_clear(words *w)
{
    for (size_t i = 0; i < WORDS_MAX; i++)
        lk_sr_bytes_free(&w->at[i]);
    w->count = 0;
}
