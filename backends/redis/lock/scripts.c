/* scripts.c: the Lua that runs inside Redis (5 or later), one atomic step each.
 *
 * KEYS are the lock, its queue, the counter of its slot's fencing numbers and its info, as far as the script uses
 * them (keys.c). The lock is a plain string: the holder's value. The queue is a sorted set of those that
 * wait, in the order in which they came, each "instance value ttl_ms numbers owner". A release hands the lock on
 * to the first of them that is still there: it sets the lock to the waiter's value, and tells the waiter's
 * process so on its own channel. So one release wakes one process, and nobody takes the lock in between. The
 * info is written by grant_info.c; it goes with the lock.
 *
 * What the counter has to be above is the last argument of each script (fence.h). The numbers stay below 2^53, so Lua's
 * doubles hold them exactly; but tostring() does not print them, hence %.0f. A foreign client may have left any type of
 * value under our names: a hash in the lock's place may be Redisson's lock, and any other type is an application's data. */
#include "scripts.h"
#include "admit_lua.h"

#define DIRECT_US "400000"           /* so long is a lock handed on without being free */
#define FREE_US   "8000"             /* ... for so long: more than the 5 ms after which many clients poll */
#define ASK_US    "1e15"             /* no lock is handed on for 30 years */
#define FREE_BASE "4503599627370496" /* 2^52: above all times in us at which somebody came */
#define NUMBER_END                                                                                           \
    "9007199254740992" /* 2^53: no number of ours comes to it, and from there on they are not exact */

/* The lock's value; false when there is none, '?' when it is no string. */
#define GET_LUA                                                                                              \
    "local function get(lock)\n"                                                                             \
    "  local v = redis.pcall('GET', lock)\n"                                                                 \
    "  if type(v) ~= 'table' then return v end\n"                                                            \
    "  if string.find(v.err, 'WRONGTYPE', 1, true) then return '?' end\n"                                    \
    "  return redis.call('GET', lock)\n"                                                                     \
    "end\n"

/* KEYS[1] holds no string. Set `sort` to its type, and return an error unless that is a hash, which may be Redisson's lock: any
 * other type is an application's data. A user who may not run TYPE gets no error. */
#define NO_LOCK_LUA                                                                                          \
    "local sort = redis.pcall('TYPE', KEYS[1]).ok\n"                                                         \
    "if sort and sort ~= 'hash' then return redis.error_reply('NOLOCK ' .. sort) end\n"

/* Added to the state of a lock that another client holds, if that is a hash: 2^52, above all states. */
#define HASH_STATE FREE_BASE

/* Takes `count` numbers: sets n to the last of them, or to the error of a counter that is none. More than one are taken
 * only where that leaves the counter behind the server's time, and as one otherwise: all locks of a slot share it, and what
 * is given out faster than time passes could be given out again after a loss. `above` is what other counters have reached
 * (0: there are none). Not a function: to make one costs as much as a call of the server. */
#define NUMBER_LUA                                                                                           \
    "if count > 1 then\n"                                                                                    \
    "  local t, last = redis.call('TIME'), redis.pcall('GET', KEYS[3])\n"                                    \
    "  last = type(last) == 'string' and tonumber(last) or 0\n"                                              \
    "  if last < least or last + count > t[1] * 1000000 + t[2] then count = 1 end\n"                         \
    "end\n"                                                                                                  \
    "n = redis.pcall('INCRBY', KEYS[3], count)\n"                                                            \
    "if type(n) == 'number' and n >= " NUMBER_END " then\n"                                                  \
    "  n = redis.error_reply('ERR value is not an integer or out of range')\n"                               \
    "elseif type(n) == 'number' and n - count < least then\n"                                                \
    "  local t = redis.call('TIME')\n"                                                                       \
    "  n = math.max(n, t[1] * 1000000 + t[2] + count, above + count)\n"                                      \
    "  local set = redis.pcall('SET', KEYS[3], string.format('%.0f', n))\n"                                  \
    "  n = set.err and set or n\n"                                                                           \
    "end\n"

/* What NUMBER_LUA uses. */
#define COUNTER_LUA "local least, above = tonumber(ARGV[#ARGV]), 0\n"

/* Puts `member` into the queue, behind all who wait there, unless it has a place. Its score is the time in us, or one more than that of the
 * last, where the clock has been set back since that one came. A user without the right gets no error, or, to share the lock, one. */
#define ENROL_LUA        ENROL_BY_LUA("pcall")
#define ENROL_SHARED_LUA ENROL_BY_LUA("call")
#define ENROL_BY_LUA(call)                                                                                   \
    "do\n"                                                                                                   \
    "  local t, ends = redis.call('TIME'), redis." call "('ZRANGE', KEYS[2], -2, -1, 'WITHSCORES')\n"        \
    "  local score, last = t[1] * 1000000 + t[2], 0\n"                                                       \
    "  for i = 1, #ends, 2 do\n"                                                                             \
    "    if ends[i] ~= 'free' then last = tonumber(ends[i + 1]) end\n"                                       \
    "  end\n"                                                                                                \
    "  if last >= score and last + 1 < " FREE_BASE " then score = last + 1 end\n"                            \
    "  redis." call "('ZADD', KEYS[2], 'NX', string.format('%.0f', score), member)\n"                        \
    "end\n"

/* Tells those who stand at `near` to 2 of `queue`, who wait for `lock`, that they do. */
#define TELL_NEAR_LUA                                                                                        \
    "for _, m in ipairs(redis.pcall('ZRANGE', queue, near, 2)) do\n"                                         \
    "  local inst, value = string.match(m, '^[SP]?(%x+) (%x+) ')\n"                                          \
    "  if inst then local text = value .. ' near ' .. lock " TELL_LUA " end\n"                               \
    "end\n"

/* Hands the lock on to the first of the queue whose process still listens, and returns `answer`; else it is
 * free, and the script goes on. At most 100 are looked at, because the server serves nobody else meanwhile;
 * behind more dead ones than that the living find the lock by their looks. The message has the last of the numbers and how
 * many there are; 0 when there is none: the waiter's next attempt tells why. Replicas are not sent it: one that was the
 * master before may have a listener still, who would take what is then handed to another. (A server without set_repl
 * sends it.) Who comes to stand among the first three is told so, for those alone look often (wait_lua).
 *
 * `direct`: for how many us the lock has been handed on, at its holder's reckoning. After DIRECT_US it is
 * left free for FREE_US, so that clients which know no queue and poll have a turn: the first of the queue
 * stays there and is told to ask, and 'free' stands behind all that wait, with the time at which the moment
 * is over. It goes when the queue runs empty. `direct` of ASK_US: it is free already, and 'free' there;
 * the first is only told to ask. */
#define HAND_OVER_LUA                                                                                        \
    "local t = direct >= " DIRECT_US " and redis.call('TIME')\n"                                             \
    "if t and direct < " ASK_US " then\n"                                                                    \
    "  redis.pcall('ZADD', KEYS[2], string.format('%.0f', " FREE_BASE " + t[1] * 1000000 + t[2] + " FREE_US  \
    "), 'free')\n"                                                                                           \
    "end\n"                                                                                                  \
    "for gone = 1, 100 do\n"                                                                                 \
    "  local first, since = unpack(redis.pcall('ZPOPMIN', KEYS[2]))\n"                                       \
    "  if not first then break end\n"                                                                        \
    "  local inst, value, ttl, count = string.match(first, '^(%x+) (%x+) ([1-9]%d*) (%d+) ')\n"              \
    "  if inst and #inst == 32 and #value == 32 then\n"                                                      \
    "    if not t and redis.pcall('SET', KEYS[1], value, 'PX', ttl).err then break end\n"                    \
    "    local n = 0\n"                                                                                      \
    "    count = tonumber(count)\n"                                                                          \
    "    if not t and count > 0 then\n" NUMBER_LUA "    end\n"                                               \
    "    n = type(n) == 'number' and string.format('%.0f/%d', n, count) or '0/0'\n"                          \
    "    pcall(redis.set_repl, redis.REPL_NONE)\n"                                                           \
    "    local text = value .. ' ' .. n .. ' ' .. (t and 0 or direct) .. ' ' .. KEYS[1]\n"                   \
    "    local heard = " TELL_LUA "\n"                                                                       \
    "    if type(heard) == 'number' and heard > 0 then\n"                                                    \
    "      if not t then\n"                                                                                  \
    "        local lock, queue, near = KEYS[1], KEYS[2], math.max(3 - gone, 0)\n" TELL_NEAR_LUA              \
    "        pcall(redis.set_repl, redis.REPL_ALL)\n"                                                        \
    "        return answer\n"                                                                                \
    "      end\n"                                                                                            \
    "      pcall(redis.set_repl, redis.REPL_ALL)\n"                                                          \
    "      redis.pcall('ZADD', KEYS[2], since, first)\n"                                                     \
    "      break\n"                                                                                          \
    "    end\n"                                                                                              \
    "    pcall(redis.set_repl, redis.REPL_ALL)\n"                                                            \
    "  elseif string.find(first, '^[SP]%x') then\n" RESERVE_LUA "  end\n"                                    \
    "end\n"                                                                                                  \
    "redis.call('DEL', KEYS[1])\n"

/* Before a value: the name of the mark that break leaves of it when it took the lock from it. It stands beside
 * the queue, in the lock's slot. */
#define MARK_LUA "string.sub(KEYS[2], 1, -6) .. 'broken:' .. "

/* Behind `queue`, before a value: the name of the doubt whether its waiter is alive. */
#define DOUBT_LUA "string.sub(queue, 1, -6) .. 'doubt:' .. "

/* The waiter `value` lives, whose ttl that is. For half a spell nobody doubts it again: those who are told of a doubt, and doubt each
 * other by what they do then, would go on for ever. */
#define CLEAR_DOUBT_LUA                                                                                      \
    "do\n"                                                                                                   \
    "  local t = redis.call('TIME')\n"                                                                       \
    "  redis.pcall('SET', " DOUBT_LUA "value, '0 ' .. t[1] * 1000 + math.floor(t[2] / 1000),\n"              \
    "    'XX', 'PX', math.ceil(math.max(ttl / 3, 300)))\n"                                                   \
    "end\n"

/* Defines drop_silent(): of the queue's first three, without `member`, those go whose process does not listen any more, or is
 * silent, but no more than `most`; who comes to stand among them is told. Returns how many went.
 *
 * A process may have died, or its host be cut off, while its connection is still there: for minutes the server does not know. So a look
 * doubts each of the other first three that can clear a doubt (claim.h), and tells it; who lives looks, or asks for the lock, at once.
 * That clears the doubt (CLEAR_DOUBT_LUA). The first look makes the doubt 1. Each later one adds the half spells that have passed since, two
 * at most, where a `spell` is a third of the member's ttl, and 0.3 s at least. With 5 the member goes: after two spells and three looks
 * at least. A stall of the server, after which all looks come together, or a step of its clock counts for one spell at most, so it
 * judges nobody. One that lives and was only late finds that it has no place, and takes the last. What a message has granted is never
 * taken back. Nobody is told of a doubt that can't be kept, as where the user has no right to that key: each would be told anew by
 * each look, and those who are told would go on for ever. */
#define DROP_SILENT_LUA                                                                                       \
    "local heard = {}\n"                                                                                      \
    "local function hears(inst)\n"                                                                            \
    "  if heard[inst] == nil then\n"                                                                          \
    "    local count = " EARS_LUA "\n"                                                                        \
    "    heard[inst] = count == nil or tonumber(count) > 0\n"                                                 \
    "  end\n"                                                                                                 \
    "  return heard[inst]\n"                                                                                  \
    "end\n"                                                                                                   \
    "local function is_silent(lock, queue, m)\n"                                                              \
    "  local kind, inst, value, ttl, rest = string.match(m, '^([SP]?)(%x+) (%x+) ([1-9]%d*) (.*)$')\n"        \
    "  local clears = kind == '' and '^0%d+ ' or '^%d+ [23] '\n"                                              \
    "  if not kind or #value ~= 32 or not string.find(rest, clears) then return false end\n"                  \
    "  local doubt, spell = " DOUBT_LUA "value, math.max(ttl / 3, 300)\n"                                     \
    "  local said = redis.pcall('GET', doubt) or '0 0'\n"                                                     \
    "  local looks, last = string.match(type(said) == 'string' and said or '', '^(%d) (%d+)$')\n"             \
    "  local halves = looks and math.floor(2 * math.abs(now - last) / spell) or 0\n"                          \
    "  if halves < 1 then return false end\n"                                                                 \
    "  local is_told = looks ~= '0'\n"                                                                        \
    "  if not is_told then halves = 1 end\n"                                                                  \
    "  looks = looks + math.min(halves, 2)\n"                                                                 \
    "  local kept = redis.pcall('SET', doubt, looks .. ' ' .. now,\n"                                         \
    "    'PX', math.ceil(math.max(2 * spell, 2500)))\n"                                                       \
    "  if kept.err then return false end\n"                                                                   \
    "  local text = value .. (kind == '' and ' look ' or ' enter ') .. lock\n"                                \
    "  if not is_told then " TELL_LUA " end\n"                                                                \
    "  return looks >= 5\n"                                                                                   \
    "end\n"                                                                                                   \
    "local function drop_silent(lock, queue, member, most)\n"                                                 \
    "  local gone, dead = 0, false\n"                                                                         \
    "  repeat\n"                                                                                              \
    "    dead = false\n"                                                                                      \
    "    for _, m in ipairs(redis.pcall('ZRANGE', queue, 0, 2)) do\n"                                         \
    "      local inst = string.match(m, '^[SP]?(%x+) ')\n"                                                    \
    "      if inst and m ~= member and gone < most and (not hears(inst) or is_silent(lock, queue, m)) then\n" \
    "        redis.pcall('ZREM', queue, m)\n"                                                                 \
    "        dead, gone = true, gone + 1\n"                                                                   \
    "      end\n"                                                                                             \
    "    end\n"                                                                                               \
    "  until not dead or gone >= most\n"                                                                      \
    "  if gone > 0 then\n"                                                                                    \
    "    local near = math.max(3 - gone, 0)\n" TELL_NEAR_LUA "  end\n"                                        \
    "  return gone\n"                                                                                         \
    "end\n"

/* Beside a queue, and beside the companion of one of several locks: a key that never exists. No lock has that name, as it is reserved
 * (keys.c), and each set of holders has its epoch behind it (admit_lua.h). */
#define NO_KEY_LUA      "string.sub(KEYS[2], 1, -6) .. 'shared:'"
#define NO_KEY_EACH_LUA "string.match(KEYS[2 * i], '^.*:') .. 'shared:'"

/* For a script that answers how it stands with a lock, and may write nothing: set `may` to the answer to a write that changes nothing, DEL
 * of a key that never exists. Return it if it is the error of a server that has become a replica. The data of such a server may be old,
 * and its clock may be ahead: then it takes a lock for expired that the new master keeps. Other errors of that write say nothing about the
 * lock. */
#define MASTER_BY_LUA(name)                                                                                  \
    "local may = redis.pcall('DEL', " name ")\n"                                                             \
    "if type(may) == 'table' and string.find(may.err, 'READONLY', 1, true) then return may end\n"
#define MASTER_LUA      MASTER_BY_LUA(NO_KEY_LUA)
#define MASTER_EACH_LUA MASTER_BY_LUA(NO_KEY_EACH_LUA)

/* KEYS: locks, and behind each its info; ARGV: their values, one behind the other, and then ttl_ms: one for all, or one for
 * each. Answers a string with 1 or 0 for each. */
static const char renew_lua[] =
    GET_LUA "local out = {}\n"
            "local n = #KEYS / 2\n"
            "for i = 1, n do\n"
            "  if get(KEYS[2 * i - 1]) == string.sub(ARGV[1], 32 * i - 31, 32 * i) then\n"
            "    local ttl = ARGV[i + 1] or ARGV[2]\n"
            "    redis.call('PEXPIRE', KEYS[2 * i - 1], ttl)\n"
            "    redis.pcall('PEXPIRE', KEYS[2 * i], ttl)\n"
            "    out[i] = '1'\n"
            "  else\n"
            "    out[i] = '0'\n"
            "    " MASTER_EACH_LUA "  end\n"
            "end\n"
            "return table.concat(out)\n";

/* The info of a grant: it is written only while the lock has its value, and ends with the lease. ARGV: value, info. */
static const char note_lua[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then\n"
                               "  local left = redis.call('PTTL', KEYS[1])\n"
                               "  if left > 0 then redis.call('SET', KEYS[2], ARGV[2], 'PX', left) end\n"
                               "end\n";

/* Answers {held, value, PTTL, info, how many wait, the first of them, the counter}. Held is 1 for a string, and 2 for another type,
 * whose name is then the value ('': the user may not run TYPE). For a long string, which is no holder's name, stands its digest. Of the others comes no
 * more than what can be ours, because anybody may write there and net/guard.h allows a whole of 1 MB. */
#define LOOK_LUA                                                                                              \
    GET_LUA                                                                                                   \
    "local function look()\n"                                                                                 \
    "  local v, held = get(KEYS[1]), 1\n"                                                                     \
    "  if v == '?' then\n"                                                                                    \
    "    local sort = redis.pcall('TYPE', KEYS[1]).ok or ''\n"                                                \
    "    if sort ~= 'string' then held, v = 2, sort end\n"                                                    \
    "  end\n"                                                                                                 \
    "  if v and #v > 4096 then v = redis.sha1hex(v) end\n"                                                    \
    "  local info = redis.pcall('GET', KEYS[4])\n"                                                            \
    "  local count = redis.pcall('ZCOUNT', KEYS[2], 0, " FREE_BASE ")\n"                                      \
    "  local queue = redis.pcall('ZRANGEBYSCORE', KEYS[2], 0, " FREE_BASE ", 'LIMIT', 0, 1000)\n"             \
    "  local last = redis.pcall('GET', KEYS[3])\n"                                                            \
    "  for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 512) end\n"                         \
    "  return {v and held or 0, v or '', redis.call('PTTL', KEYS[1]), "                                       \
    "    type(info) == 'string' and string.sub(info, 1, 512) or '', type(count) == 'number' and count or 0, " \
    "    queue.err and {} or queue, type(last) == 'string' and string.sub(last, 1, 32) or ''}\n"              \
    "end\n"

static const char show_lua[] = LOOK_LUA MASTER_LUA "return look()\n";

/* How a process is told a text: on the channel of its instance; answers how many heard it, or an error. And how many listen
 * there. */
/* The texts are longer than a compiler of C has to take; those that compile this do. */
#pragma GCC diagnostic ignored "-Woverlength-strings"
#define OF_KIND(name) one_##name
#define TELL_LUA      "redis.pcall('PUBLISH', 'locker:wake:' .. inst, text)"
#define EARS_LUA      "redis.pcall('PUBSUB', 'NUMSUB', 'locker:wake:' .. inst)[2]"
#define BEGIN_LUA
#define WAIT_BEGIN_LUA
#include "scripts_told.h"
#include "shared_told.h"
#undef OF_KIND
#undef TELL_LUA
#undef EARS_LUA
#undef BEGIN_LUA
#undef WAIT_BEGIN_LUA

/* In a cluster each slot has a channel of its own, in that slot. Who listens at a replica hears it as well, and may have been told
 * by it when that was the master: nobody is told anything unless somebody listens here. */
#define OF_KIND(name) cluster_##name
#define TELL_LUA      "tell(inst, text)"
#define EARS_LUA      "redis.pcall('PUBSUB', 'SHARDNUMSUB', 'locker:wake:' .. inst .. tag)[2]"
#define SLOT_LUA                                                                                             \
    "local function tell(inst, s)\n"                                                                         \
    "  inst = 'locker:wake:' .. inst .. tag\n"                                                               \
    "  local n = redis.pcall('PUBSUB', 'SHARDNUMSUB', inst)[2]\n"                                            \
    "  return n and n > 0 and redis.pcall('SPUBLISH', inst, s) or 0\n"                                       \
    "end\n"
#define BEGIN_LUA      "local tag = KEYS[3]:match('{%d+}$')\n" SLOT_LUA
#define WAIT_BEGIN_LUA "local tag = ARGV[#ARGV]\n" SLOT_LUA
#include "scripts_told.h"
#include "shared_told.h"

/* Shared locks and permits: renewals, as *renew*, but behind each lock its queue. */
static const char shared_renew_lua[] = GET_LUA NOW_LUA
    "local out = {}\n"
    "local function renew(i)\n"
    "  local lock, value, ttl = KEYS[2 * i - 1], string.sub(ARGV[1], 32 * i - 31, 32 * i), ARGV[i + 1] or ARGV[2]\n"
    "  local kind, epoch = string.match(get(lock) or '', " MARKER_LUA ")\n"
    "  local set = kind and " SET_NAME_LUA(
        "KEYS[2 * i]") "epoch\n"
                       "  if set then\n" ALL_HERE_LUA "  end\n"
                       "  local ends = set and redis.call('ZSCORE', set, value)\n"
                       "  out[i] = '0'\n"
                       "  if ends and tonumber(ends) >= now then\n" WRITE_LUA
                       "    redis.call('ZADD', set, now + ttl, value)\n" LATEST_LUA(
                           "lock") "    out[i] = '1'\n"
                                   "  end\n"
                                   "  if out[i] == '0' then\n" MASTER_EACH_LUA "  end\n"
                                   "end\n" EACH_LUA("#KEYS / 2") "return table.concat(out)\n";

/* A page of those who hold the lock, in the order in which their leases end; a renewal moves a holder ahead, so pages one behind the
 * other leave nobody out. ARGV: the token of whom it is about, and `=` and the owner ('': any); where the page begins: an end, and
 * the value whose lease that is ('': the first page); the greatest token that counts ('': any). Answers {marker, the holders, where the next page begins ('': it is the
 * last), how many wait, the first of them, the counter}; of a holder its value, how many ms are left, and what is told of it. {''}
 * for a lock that is none of these. Of a page only those are looked at whom it may take 2 ms to compare. */
static const char shared_show_lua[] = GET_LUA NOW_LUA NAMED_LUA MASTER_LUA
    "local v = get(KEYS[1])\n"
    "local kind, epoch = string.match(v or '', " MARKER_LUA ")\n"
    "if not kind then return {''} end\n"
    "local set, out = " SET_NAME_LUA(
        "KEYS[2]") "epoch, {}\n"
                   "local token, owner, from, behind, newest = unpack(ARGV, 1, 5)\n"
                   "local page = 1000\n"
                   "if token ~= '' or owner ~= '' or newest ~= '' then page = 500 end\n"
                   "if from == '' then from = now end\n"
                   "local held, at, full\n"
                   "repeat\n"
                   "  held, at = redis.call('ZRANGEBYSCORE', set, from, '+inf', 'WITHSCORES', 'LIMIT', 0, page), 1\n"
                   "  for i = 1, #held, 2 do\n"
                   "    if held[i] == behind and held[i + 1] == from then at = i + 2 end\n"
                   "  end\n"
                   "  full, page = #held == 2 * page, 2 * page\n"
                   "until not full or at <= #held and (at > 1 or held[#held] ~= from)\n"
                   "for i = at, #held, 2 do\n"
                   "  local info = redis.pcall('HGET', set .. ':info', held[i])\n"
                   "  info = type(info) == 'string' and string.sub(info, 1, 384) or ''\n"
                   "  if is_named(info, token, owner, newest) then\n"
                   "    out[#out + 1], out[#out + 2], out[#out + 3] = string.sub(held[i], 1, 33), held[i + 1] - now, info\n"
                   "  end\n"
                   "end\n"
                   "local next = full and held[#held] .. ' ' .. held[#held - 1] or ''\n"
                   "local count = redis.pcall('ZCOUNT', KEYS[2], 0, " FREE_BASE ")\n"
                   "local queue = behind == '' and redis.pcall('ZRANGEBYSCORE', KEYS[2], 0, " FREE_BASE
                   ", 'LIMIT', 0, 1000) or {}\n"
                   "for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 400) end\n"
                   "local last = redis.pcall('GET', KEYS[3])\n"
                   "return {v, out, next, type(count) == 'number' and count or 0, queue.err and {} or queue,\n"
                   "  type(last) == 'string' and string.sub(last, 1, 32) or ''}\n";

const char *const lk_redis_script_text[LK_REDIS_SCRIPT_COUNT] = {
    [LK_REDIS_SCRIPT_ACQUIRE] = one_acquire_lua,
    [LK_REDIS_SCRIPT_RELEASE] = one_release_lua,
    [LK_REDIS_SCRIPT_RENEW] = renew_lua,
    [LK_REDIS_SCRIPT_WAIT] = one_wait_lua,
    [LK_REDIS_SCRIPT_SHOW] = show_lua,
    [LK_REDIS_SCRIPT_BREAK] = one_break_lua,
    [LK_REDIS_SCRIPT_SHARED_ACQUIRE] = one_shared_acquire_lua,
    [LK_REDIS_SCRIPT_SHARED_RELEASE] = one_shared_release_lua,
    [LK_REDIS_SCRIPT_SHARED_RENEW] = shared_renew_lua,
    [LK_REDIS_SCRIPT_SHARED_SHOW] = shared_show_lua,
    [LK_REDIS_SCRIPT_SHARED_BREAK] = one_shared_break_lua,
};
const char *const lk_redis_cluster_script_text[LK_REDIS_SCRIPT_COUNT] = {
    [LK_REDIS_SCRIPT_ACQUIRE] = cluster_acquire_lua,
    [LK_REDIS_SCRIPT_RELEASE] = cluster_release_lua,
    [LK_REDIS_SCRIPT_RENEW] = renew_lua,
    [LK_REDIS_SCRIPT_WAIT] = cluster_wait_lua,
    [LK_REDIS_SCRIPT_SHOW] = show_lua,
    [LK_REDIS_SCRIPT_BREAK] = cluster_break_lua,
    [LK_REDIS_SCRIPT_SHARED_ACQUIRE] = cluster_shared_acquire_lua,
    [LK_REDIS_SCRIPT_SHARED_RELEASE] = cluster_shared_release_lua,
    [LK_REDIS_SCRIPT_SHARED_RENEW] = shared_renew_lua,
    [LK_REDIS_SCRIPT_SHARED_SHOW] = shared_show_lua,
    [LK_REDIS_SCRIPT_SHARED_BREAK] = cluster_shared_break_lua,
};
const char *const lk_redis_note_text = note_lua;
