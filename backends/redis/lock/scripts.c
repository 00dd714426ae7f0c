/* scripts.c: the Lua that runs inside Redis (5 or later), one atomic step each.
 *
 * KEYS are the lock, its queue, the counter of its slot's fencing numbers and its info, as far as the script uses
 * them (keys.c). The lock is a plain string: the holder's value. The queue is a sorted set of those that
 * wait, by the time when they came, each "instance value ttl_ms numbers owner". A release hands the lock on
 * to the first of them that is still there: it sets the lock to the waiter's value, and tells the waiter's
 * process so on its own channel. So one release wakes one process, and nobody takes the lock in between. The
 * info is written by grant_info.c; it goes with the lock.
 *
 * What the counter has to be above is the last argument of each script (fence.h). The numbers stay below 2^53, so Lua's
 * doubles hold them exactly; but tostring() does not print them, hence %.0f. A foreign client may have left any type of
 * value under our names: a lock of another type is somebody else's. */
#include "scripts.h"

#define DIRECT_US "400000"           /* so long is a lock handed on without being free */
#define FREE_US   "8000"             /* ... for so long: more than the 5 ms after which many clients poll */
#define ASK_US    "1e15"             /* no lock is handed on for 30 years */
#define FREE_BASE "4503599627370496" /* 2^52: above all times in us at which somebody came */
#define NUMBER_END                                                                                           \
    "9007199254740992" /* 2^53: no number of ours comes to it, and from there on they are not exact */

/* How a process is told: on the channel of its instance; answers how many heard it, or an error. And how many listen there. */
#define TELL_ONE(inst, text) "redis.pcall('PUBLISH', 'locker:wake:' .. " inst ", " text ")"
#define HEARS_ONE(inst)      "redis.pcall('PUBSUB', 'NUMSUB', 'locker:wake:' .. " inst ")[2]"

/* In a cluster each slot has a channel of its own, in that slot. Who listens at a replica hears it as well, and may have been told
 * by it when that was the master: nobody is told anything unless somebody listens here. TAG: the slot's. */
#define CLUSTER_LUA(TAG)                                                                                     \
    "local tag = " TAG "\n"                                                                                  \
    "local function ears(i)\n"                                                                               \
    "  local n = redis.pcall('PUBSUB', 'SHARDNUMSUB', 'locker:wake:' .. i .. tag)\n"                         \
    "  return n.err and 0 or n[2]\n"                                                                         \
    "end\n"                                                                                                  \
    "local function tell(i, s)\n"                                                                            \
    "  return ears(i) > 0 and redis.pcall('SPUBLISH', 'locker:wake:' .. i .. tag, s) or 0\n"                 \
    "end\n"
#define COUNTER_TAG           "string.match(KEYS[3], '{%d+}$')"
#define TELL_SLOT(inst, text) "tell(" inst ", " text ")"
#define HEARS_SLOT(inst)      "ears(" inst ")"

/* The lock's value; false when there is none, '?' when it is no string. */
#define GET_LUA                                                                                              \
    "local function get(lock)\n"                                                                             \
    "  local v = redis.pcall('GET', lock)\n"                                                                 \
    "  if type(v) ~= 'table' then return v end\n"                                                            \
    "  if string.find(v.err, 'WRONGTYPE', 1, true) then return '?' end\n"                                    \
    "  return redis.call('GET', lock)\n"                                                                     \
    "end\n"

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

/* Tells those who stand at `near` to 2 of `queue`, who wait for `lock`, that they do. */
#define TELL_NEAR_LUA(TELL)                                                                                  \
    "for _, m in ipairs(redis.pcall('ZRANGE', queue, near, 2)) do\n"                                         \
    "  local inst, value = string.match(m, '^(%x+) (%x+) ')\n"                                               \
    "  if inst then " TELL("inst", "value .. ' near ' .. lock") " end\n"                                     \
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
#define HAND_OVER_LUA(TELL)                                                                                                                                               \
    "local t = direct >= " DIRECT_US " and redis.call('TIME')\n"                                                                                                          \
    "if t and direct < " ASK_US " then\n"                                                                                                                                 \
    "  redis.pcall('ZADD', KEYS[2], string.format('%.0f', " FREE_BASE " + t[1] * 1000000 + t[2] + " FREE_US                                                               \
    "), 'free')\n"                                                                                                                                                        \
    "end\n"                                                                                                                                                               \
    "for gone = 1, 100 do\n"                                                                                                                                              \
    "  local first, since = unpack(redis.pcall('ZPOPMIN', KEYS[2]))\n"                                                                                                    \
    "  if not first then break end\n"                                                                                                                                     \
    "  local inst, value, ttl, count = string.match(first, '^(%x+) (%x+) ([1-9]%d*) (%d+) ')\n"                                                                           \
    "  if inst and #inst == 32 and #value == 32 then\n"                                                                                                                   \
    "    if not t and redis.pcall('SET', KEYS[1], value, 'PX', ttl).err then break end\n"                                                                                 \
    "    local n = 0\n"                                                                                                                                                   \
    "    count = tonumber(count)\n"                                                                                                                                       \
    "    if not t and count > 0 then\n" NUMBER_LUA "    end\n"                                                                                                            \
    "    n = type(n) == 'number' and string.format('%.0f/%d', n, count) or '0/0'\n"                                                                                       \
    "    pcall(redis.set_repl, redis.REPL_NONE)\n"                                                                                                                        \
    "    local heard = " TELL(                                                                                                                                            \
        "inst",                                                                                                                                                           \
        "value .. ' ' .. n .. ' ' .. (t and 0 or direct) .. ' ' .. KEYS[1]") "\n"                                                                                         \
                                                                             "    if type(heard) == 'number' and heard > 0 then\n"                                        \
                                                                             "      if not t then\n"                                                                      \
                                                                             "        local lock, queue, near = KEYS[1], KEYS[2], math.max(3 - gone, 0)\n" TELL_NEAR_LUA( \
                                                                                 TELL) "        pcall(redis.set_repl, redis.REPL_ALL)\n"                                  \
                                                                                       "        return answer\n"                                                          \
                                                                                       "      end\n"                                                                      \
                                                                                       "      pcall(redis.set_repl, redis.REPL_ALL)\n"                                    \
                                                                                       "      redis.pcall('ZADD', KEYS[2], since, first)\n"                               \
                                                                                       "      break\n"                                                                    \
                                                                                       "    end\n"                                                                        \
                                                                                       "    pcall(redis.set_repl, redis.REPL_ALL)\n"                                      \
                                                                                       "  end\n"                                                                          \
                                                                                       "end\n"                                                                            \
                                                                                       "redis.call('DEL', KEYS[1])\n"

/* Before a value: the name of the mark that break leaves of it when it took the lock from it. It stands beside
 * the queue, in the lock's slot. */
#define MARK_LUA "string.sub(KEYS[2], 1, -6) .. 'broken:' .. "

/* KEYS[4]: where earlier releases count the lock's numbers; ours go on from there. ARGV: value, ttl_ms, member of the queue or
 * '', how long the queue is kept in ms, how many numbers the grant wants (0: no fencing), whether to try first if we could
 * release it (1 or 0), whether the server may know the value: from the queue, or by an attempt of unknown outcome (1 or 0); a
 * mark of it is about a grant that nobody was told of then. Answers the last of the numbers (1 without fencing) when it is
 * ours, or {that, how many there are} where more than one were wanted; else {PTTL, the counter, s}, where s is 2^24 times how
 * many stand in the queue, and twice the member's place there, from 1 on (0: it has none). Ours already: a lost reply, or handed
 * over; then the lease starts anew, with new numbers. One more of s: it is left free for others for as long as the first number
 * says (HAND_OVER_LUA). */
#define ACQUIRE_LUA(TELL)                                                                                       \
    "local value, ttl, member = ARGV[1], ARGV[2], ARGV[3]\n"                                                    \
    "if ARGV[6] == '1' then\n"                                                                                  \
    "  local v = redis.pcall('GET', KEYS[1])\n"                                                                 \
    "  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"              \
    "end\n"                                                                                                     \
    "if ARGV[7] == '1' then redis.pcall('DEL', " MARK_LUA "value) end\n"                                        \
    "local set = redis.pcall('SET', KEYS[1], value, 'NX', 'PX', ttl)\n"                                         \
    "local left\n"                                                                                              \
    "local free = set and not set.err and member ~= '' and redis.pcall('ZSCORE', KEYS[2], 'free')\n"            \
    "if type(free) == 'string' then\n"                                                                          \
    "  local t = redis.call('TIME')\n"                                                                          \
    "  left = free - " FREE_BASE " - t[1] * 1000000 - t[2]\n"                                                   \
    "  left = left > 0 and left <= " FREE_US " and math.ceil(left / 1000)\n"                                    \
    "  if left then redis.call('DEL', KEYS[1]) set = false end\n"                                               \
    "end\n"                                                                                                     \
    "if not set or set.err then\n"                                                                              \
    "  local v = redis.pcall('GET', KEYS[1])\n"                                                                 \
    "  if v == value then\n"                                                                                    \
    "    redis.call('PEXPIRE', KEYS[1], ttl)\n"                                                                 \
    "  elseif set then\n"                                                                                       \
    "    return set\n"                                                                                          \
    "  elseif type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then\n"                       \
    "    return v\n"                                                                                            \
    "  else\n"                                                                                                  \
    "    local state = left and 1 or 0\n"                                                                       \
    "    if member ~= '' then\n"                                                                                \
    "      local t = redis.call('TIME')\n"                                                                      \
    "      redis.pcall('ZADD', KEYS[2], 'NX', t[1] .. string.sub('00000' .. t[2], -6), member)\n"               \
    "      redis.pcall('PEXPIRE', KEYS[2], ARGV[4])\n"                                                          \
    "      local rank, count = redis.pcall('ZRANK', KEYS[2], member), redis.pcall('ZCARD', KEYS[2])\n"          \
    "      if type(rank) == 'number' and rank < 8388607 and type(count) == 'number' then\n"                     \
    "        state = state + 2 * (rank + 1) + 16777216 * count\n"                                               \
    "      end\n"                                                                                               \
    "    end\n"                                                                                                 \
    "    local last = redis.pcall('GET', KEYS[3])\n"                                                            \
    "    return {left or redis.call('PTTL', KEYS[1]), type(last) == 'string' and tonumber(last) or 0, state}\n" \
    "  end\n"                                                                                                   \
    "end\n"                                                                                                     \
    "if ARGV[7] == '1' and member ~= '' and redis.pcall('ZREM', KEYS[2], member) == 1 then\n"                   \
    "  local lock, queue, near = KEYS[1], KEYS[2], 2\n" TELL_NEAR_LUA(                                          \
        TELL) "end\n"                                                                                           \
              "if ARGV[5] == '0' then return 1 end\n" COUNTER_LUA                                               \
              "local old = redis.pcall('GET', KEYS[4])\n"                                                       \
              "if type(old) == 'string' and string.find(old, '^%d+$') and tonumber(old) < " NUMBER_END          \
              " then\n"                                                                                         \
              "  above = tonumber(old)\n"                                                                       \
              "  least = math.max(least, above)\n"                                                              \
              "end\n"                                                                                           \
              "local n, count = nil, tonumber(ARGV[5])\n" NUMBER_LUA "if type(n) ~= 'number' then\n"            \
              "  if set then redis.call('DEL', KEYS[1]) end\n"                                                  \
              "  return n\n"                                                                                    \
              "end\n"                                                                                           \
              "return ARGV[5] == '1' and n or {n, count}\n"

/* KEYS[4], where it is given: the info, which the server was told. ARGV: value, member of the queue or '', for how many us it
 * has been handed on. Answers 1: it was ours, and is the next one's or nobody's; 0: it was not ours, and nothing has changed;
 * -1: likewise, and it was taken away by break. A member that goes while the lock is left free may be the one that was told to
 * ask; then nobody else would take it before a look. So the next is told. */
#define RELEASE_LUA(TELL)                                                                                    \
    "local gone = ARGV[2] ~= '' and redis.pcall('ZREM', KEYS[2], ARGV[2])\n"                                 \
    "local v, answer, direct = redis.pcall('GET', KEYS[1]), 1, tonumber(ARGV[3])\n"                          \
    "if gone == 1 then\n"                                                                                    \
    "  local lock, queue, near = KEYS[1], KEYS[2], 2\n" TELL_NEAR_LUA(                                       \
        TELL) "end\n"                                                                                        \
              "if not v and gone == 1 and type(redis.pcall('ZSCORE', KEYS[2], 'free')) == 'string' then\n"   \
              "  answer, direct = 0, " ASK_US "\n"                                                           \
              "elseif v ~= ARGV[1] then\n"                                                                   \
              "  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n" \
              "  v = redis.pcall('GET', " MARK_LUA "ARGV[1])\n"                                              \
              "  return v and (type(v) == 'table' and v or -1) or 0\n"                                       \
              "end\n"                                                                                        \
              "if KEYS[4] then redis.pcall('DEL', KEYS[4]) end\n" COUNTER_LUA                                \
              HAND_OVER_LUA(TELL) "return answer\n"

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
            "  end\n"
            "end\n"
            "return table.concat(out)\n";

/* For those who wait, how it stands with their locks. KEYS: locks, and behind each its queue; ARGV: how long the queues are
 * kept in ms, and then the member of each who asks. Of a queue's first three those go whose process does not listen any more
 * (100 in all, for the server serves nobody else meanwhile), and who comes to stand among them is told. Answers three numbers
 * for each: PTTL, how many stand before the member (-1: it is not there), how many stand there. What writes first is called so
 * that a server which has become a replica says so. */
#define WAIT_LUA(TELL, HEARS)                                                                                        \
    "local out, heard, n, most = {}, {}, #KEYS / 2, 100\n"                                                           \
    "local function hears(inst)\n"                                                                                   \
    "  if heard[inst] == nil then\n"                                                                                 \
    "    local count = " HEARS(                                                                                      \
        "inst") "\n"                                                                                                 \
                "    heard[inst] = count == nil or tonumber(count) > 0\n"                                            \
                "  end\n"                                                                                            \
                "  return heard[inst]\n"                                                                             \
                "end\n"                                                                                              \
                "for i = 1, n do\n"                                                                                  \
                "  local lock, queue, member, gone, dead = KEYS[2 * i - 1], KEYS[2 * i], ARGV[1 + i], 0, false\n"    \
                "  redis.call('PEXPIRE', queue, ARGV[1])\n"                                                          \
                "  repeat\n"                                                                                         \
                "    dead = false\n"                                                                                 \
                "    for _, m in ipairs(redis.pcall('ZRANGE', queue, 0, 2)) do\n"                                    \
                "      local inst = string.match(m, '^(%x+) ')\n"                                                    \
                "      if inst and m ~= member and gone < most and not hears(inst) then\n"                           \
                "        redis.pcall('ZREM', queue, m)\n"                                                            \
                "        dead, gone = true, gone + 1\n"                                                              \
                "      end\n"                                                                                        \
                "    end\n"                                                                                          \
                "  until not dead or gone >= most\n"                                                                 \
                "  most = most - gone\n"                                                                             \
                "  if gone > 0 then\n"                                                                               \
                "    local near = math.max(3 - gone, 0)\n" TELL_NEAR_LUA(                                            \
                    TELL) "  end\n"                                                                                  \
                          "  local rank, count = redis.pcall('ZRANK', queue, member), redis.pcall('ZCARD', queue)\n" \
                          "  out[3 * i - 2], out[3 * i - 1], out[3 * i] = redis.call('PTTL', lock),\n"               \
                          "    type(rank) == 'number' and rank or -1, type(count) == 'number' and count or 0\n"      \
                          "end\n"                                                                                    \
                          "return out\n"

/* The info of a grant: it is written only while the lock has its value, and ends with the lease. ARGV: value, info. */
static const char note_lua[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then\n"
                               "  local left = redis.call('PTTL', KEYS[1])\n"
                               "  if left > 0 then redis.call('SET', KEYS[2], ARGV[2], 'PX', left) end\n"
                               "end\n";

/* Answers {held, value, PTTL, info, how many wait, the first of them, the counter}. A value that is no string
 * is shown as held by somebody; for a long one, which is no holder's name, stands its digest. Of the others comes no
 * more than what can be ours, because anybody may write there and net/guard.h allows a whole of 1 MB. */
#define LOOK_LUA                                                                                              \
    GET_LUA                                                                                                   \
    "local function look()\n"                                                                                 \
    "  local v = get(KEYS[1])\n"                                                                              \
    "  if v and #v > 4096 then v = redis.sha1hex(v) end\n"                                                    \
    "  local info = redis.pcall('GET', KEYS[4])\n"                                                            \
    "  local count = redis.pcall('ZCOUNT', KEYS[2], 0, " FREE_BASE ")\n"                                      \
    "  local queue = redis.pcall('ZRANGEBYSCORE', KEYS[2], 0, " FREE_BASE ", 'LIMIT', 0, 1000)\n"             \
    "  local last = redis.pcall('GET', KEYS[3])\n"                                                            \
    "  for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 512) end\n"                         \
    "  return {v and 1 or 0, v or '', redis.call('PTTL', KEYS[1]), "                                          \
    "    type(info) == 'string' and string.sub(info, 1, 512) or '', type(count) == 'number' and count or 0, " \
    "    queue.err and {} or queue, type(last) == 'string' and string.sub(last, 1, 32) or ''}\n"              \
    "end\n"

static const char show_lua[] = LOOK_LUA "return look()\n";

/* ARGV: the value that the lock is to be taken from. Answers as it looked before; nothing has changed if the
 * value is another. The holder is told on its own channel, which its info names; one that
 * has not written that yet, because it doesn't know of its grant, on the one that follows from the value (redis.c): behind the
 * message of its grant, however late that is, and with the counter, as the value may get the lock anew meanwhile.
 *
 * The mark tells a release whose first answer was lost that its lock was not its own any more. Such a release
 * answers OK only until the local deadline of its lease, which comes before the lease's end here, so the mark
 * need not last longer than that. */
#define BREAK_LUA(TELL)                                                                                      \
    LOOK_LUA COUNTER_LUA                                                                                     \
        "local answer, direct = look(), 0\n"                                                                 \
        "local value, ttl, info = answer[2], answer[3], answer[4]\n"                                         \
        "if answer[1] == 1 and value == ARGV[1] then\n"                                                      \
        "  redis.call('DEL', KEYS[1])\n"                                                                     \
        "  if ttl > 0 and #value == 32 then\n"                                                               \
        "    local mark = redis.pcall('SET', " MARK_LUA "value, '1', 'PX', ttl)\n"                           \
        "    if mark.err then\n"                                                                             \
        "      redis.pcall('SET', KEYS[1], value, 'PX', ttl)\n"                                              \
        "      return mark\n"                                                                                \
        "    end\n"                                                                                          \
        "  end\n"                                                                                            \
        "  local inst = string.sub(info, 1, #value + 1) == value .. ' ' and\n"                               \
        "    string.match(info, '^%d+ %d+ (%x+) ', #value + 2)\n"                                            \
        "  local how = ' broken '\n"                                                                         \
        "  if not inst and #value == 32 then\n"                                                              \
        "    inst = string.rep(string.sub(value, 1, 16), 2)\n"                                               \
        "    how = ' taken ' .. (string.match(answer[7], '^%d+$') or 0) .. ' '\n"                            \
        "  end\n"                                                                                            \
        "  if inst then " TELL("inst",                                                                       \
                               "value .. how .. KEYS[1]") " end\n"                                           \
                                                          "  redis.pcall('DEL', KEYS[4])\n" HAND_OVER_LUA(   \
                                                              TELL) "end\n"                                  \
                                                                    "return answer\n"

const char *const lk_redis_script_text[LK_REDIS_SCRIPT_COUNT] = {
    [LK_REDIS_SCRIPT_ACQUIRE] = ACQUIRE_LUA(TELL_ONE),
    [LK_REDIS_SCRIPT_RELEASE] = RELEASE_LUA(TELL_ONE),
    [LK_REDIS_SCRIPT_RENEW] = renew_lua,
    [LK_REDIS_SCRIPT_WAIT] = WAIT_LUA(TELL_ONE, HEARS_ONE),
    [LK_REDIS_SCRIPT_SHOW] = show_lua,
    [LK_REDIS_SCRIPT_BREAK] = BREAK_LUA(TELL_ONE),
};
const char *const lk_redis_cluster_script_text[LK_REDIS_SCRIPT_COUNT] = {
    [LK_REDIS_SCRIPT_ACQUIRE] = CLUSTER_LUA(COUNTER_TAG) ACQUIRE_LUA(TELL_SLOT),
    [LK_REDIS_SCRIPT_RELEASE] = CLUSTER_LUA(COUNTER_TAG) RELEASE_LUA(TELL_SLOT),
    [LK_REDIS_SCRIPT_RENEW] = renew_lua,
    [LK_REDIS_SCRIPT_WAIT] = CLUSTER_LUA("ARGV[#ARGV]") WAIT_LUA(TELL_SLOT, HEARS_SLOT),
    [LK_REDIS_SCRIPT_SHOW] = show_lua,
    [LK_REDIS_SCRIPT_BREAK] = CLUSTER_LUA(COUNTER_TAG) BREAK_LUA(TELL_SLOT),
};
const char *const lk_redis_note_text = note_lua;
