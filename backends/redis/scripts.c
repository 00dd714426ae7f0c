/*
 * scripts.c: the Lua that runs inside Redis (5 or later), one atomic step each.
 *
 * KEYS are the lock, its info and its queue (keys.c). The lock is a plain string: the holder's value. The
 * info is a string "last value since_ms token owner": the last fencing number given out, and the grant that
 * it was given to. The queue is a sorted set of those that wait, by the time when they came, each "instance
 * value ttl_ms fenced owner". A release hands the lock on to the first of them that is still there: it sets
 * the lock to the waiter's value, and tells the waiter's process so on its own channel. So one release wakes
 * one process, and nobody takes the lock in between.
 *
 * Fencing numbers are max(last + 1, time in us): they grow over a loss of all data too. They stay below 2^53,
 * so Lua's doubles hold them exactly; but tostring() does not print them, hence %.0f. A foreign client may
 * have left any type of value under our names: a lock of another type is somebody else's.
 */
#include <string.h>

#include "internal.h"

/* The lock's value; false when there is none, '?' when it is no string. */
#define GET_LUA                                                                                              \
    "local function get(lock)\n"                                                                             \
    "  local v = redis.pcall('GET', lock)\n"                                                                 \
    "  if type(v) ~= 'table' then return v end\n"                                                            \
    "  if string.find(v.err, 'WRONGTYPE', 1, true) then return '?' end\n"                                    \
    "  return redis.call('GET', lock)\n"                                                                     \
    "end\n"

/* Hand the lock on to `first` of the queue, or to one of those behind it whose process still listens; else it
 * is free. Kept out of the way of a release that nobody waits for: making a function costs as much as a call.
 */
#define HAND_OVER_LUA                                                                                        \
    "local function hand_over(lock, info, queue, first)\n"                                                   \
    "  for _ = 1, 10000 do\n"                                                                                \
    "    if not first then break end\n"                                                                      \
    "    local inst, value, ttl, fenced, owner = string.match(first, '^(%x+) (%x+) ([1-9]%d*) ([01]) "       \
    "(.*)$')\n"                                                                                              \
    "    if inst and #inst == 32 and #value == 32 then\n"                                                    \
    "      if redis.pcall('SET', lock, value, 'PX', ttl).err then break end\n"                               \
    "      local n = '0'\n"                                                                                  \
    "      if fenced == '1' then\n"                                                                          \
    "        local s = redis.pcall('GET', info)\n"                                                           \
    "        local t = redis.call('TIME')\n"                                                                 \
    "        local last = type(s) == 'string' and tonumber(string.match(s, '^%d+')) or 0\n"                  \
    "        n = string.format('%.0f', math.max(last + 1, t[1] * 1000000 + t[2]))\n"                         \
    "        redis.pcall('SET', info, n .. ' ' .. value .. ' ' .. string.sub(n, 1, -4) .. ' ' .. n .. ' ' "  \
    ".. owner, "                                                                                             \
    "          'PX', string.format('%.0f', math.max(604800000, 100 * ttl)))\n"                               \
    "      end\n"                                                                                            \
    "      local heard = redis.pcall('PUBLISH', 'locker:wake:' .. inst, value .. ' ' .. n .. ' ' .. lock)\n" \
    "      if type(heard) == 'number' and heard > 0 then return end\n"                                       \
    "    end\n"                                                                                              \
    "    first = redis.pcall('ZPOPMIN', queue)[1]\n"                                                         \
    "  end\n"                                                                                                \
    "  redis.call('DEL', lock)\n"                                                                            \
    "end\n"

/* ARGV: value, ttl_ms, owner, member of the queue or '', how long the queue is kept in ms, fenced (1 or 0),
 * how long info is kept in ms, whether the member may stand in the queue (1 or 0). Answers the fencing number
 * (1 without fencing) when it is ours, else {PTTL, last number}. Ours already: a lost reply, or handed over;
 * then the lease starts anew. Info is read first, so that a right that is missing is noticed before anything
 * is written. */
/* The usual way deals in text: turning a number into text takes as long as a command. */
static const char acquire_lua[] =
    "local value, ttl, member = ARGV[1], ARGV[2], ARGV[4]\n"
    "local s = redis.pcall('GET', KEYS[2])\n"
    "if type(s) == 'table' then\n"
    "  if not string.find(s.err, 'WRONGTYPE', 1, true) then return s end\n"
    "  s = false\n"
    "end\n"
    "local set = redis.pcall('SET', KEYS[1], value, 'NX', 'PX', ttl)\n"
    "if not set or set.err then\n"
    "  local v = redis.pcall('GET', KEYS[1])\n"
    "  if v == value then\n"
    "    redis.call('PEXPIRE', KEYS[1], ttl)\n"
    "    local last, whose = string.match(s or '', '^(%d+) (%x+) ')\n"
    "    if whose == value then\n"
    "      if member ~= '' then redis.pcall('ZREM', KEYS[3], member) end\n"
    "      return last\n"
    "    end\n"
    "  elseif set then\n"
    "    return set\n"
    "  elseif type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then\n"
    "    return v\n"
    "  else\n"
    "    if member ~= '' then\n"
    "      local t = redis.call('TIME')\n"
    "      redis.pcall('ZADD', KEYS[3], 'NX', string.format('%.0f', t[1] * 1000000 + t[2]), member)\n"
    "      redis.pcall('PEXPIRE', KEYS[3], ARGV[5])\n"
    "    end\n"
    "    return {redis.call('PTTL', KEYS[1]), s and tonumber(string.match(s, '^%d+')) or 0}\n"
    "  end\n"
    "end\n"
    "if ARGV[8] == '1' then redis.pcall('ZREM', KEYS[3], member) end\n"
    "if ARGV[6] == '0' then return '1' end\n"
    "local t = redis.call('TIME')\n"
    "local n = t[1] .. string.sub('00000' .. t[2], -6)\n"
    "local last = s and string.match(s, '^%d+')\n"
    "if last and (#last ~= #n or last >= n) then\n"
    "  n = string.format('%.0f', math.max(tonumber(last) + 1, tonumber(n)))\n"
    "end\n"
    "redis.pcall('SET', KEYS[2], n .. ' ' .. value .. ' ' .. string.sub(n, 1, -4) .. ' ' .. n .. ' ' .. "
    "ARGV[3], "
    "'PX', ARGV[7])\n"
    "return n\n";

/* ARGV: value, member of the queue or '', greatest token used if the server doesn't know it, else ''.
 * Answers 1: it was ours, and is the next one's or nobody's; 0: it was not ours, and nothing has changed. */
static const char release_lua[] =
    "if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[3], ARGV[2]) end\n"
    "local v = redis.pcall('GET', KEYS[1])\n"
    "if v ~= ARGV[1] then\n"
    "  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
    "  return 0\n"
    "end\n"
    "if ARGV[3] ~= '' then\n"
    "  local s = redis.pcall('GET', KEYS[2])\n"
    "  local rest = type(s) == 'string' and string.match(s, '^%d+( .*)$')\n"
    "  if rest then redis.pcall('SET', KEYS[2], ARGV[3] .. rest, 'PX', 604800000) end\n"
    "end\n"
    "local first = redis.pcall('ZPOPMIN', KEYS[3])[1]\n"
    "if not first then\n"
    "  redis.call('DEL', KEYS[1])\n"
    "  return 1\n"
    "end\n" HAND_OVER_LUA "hand_over(KEYS[1], KEYS[2], KEYS[3], first)\n"
    "return 1\n";

/* KEYS: locks; ARGV: value and ttl_ms of each. Answers a string with 1 or 0 for each. */
static const char renew_lua[] = GET_LUA "local out = {}\n"
                                        "for i, key in ipairs(KEYS) do\n"
                                        "  if get(key) == ARGV[2 * i - 1] then\n"
                                        "    redis.call('PEXPIRE', key, ARGV[2 * i])\n"
                                        "    out[i] = '1'\n"
                                        "  else\n"
                                        "    out[i] = '0'\n"
                                        "  end\n"
                                        "end\n"
                                        "return table.concat(out)\n";

/* After a hand-over inside the process. ARGV: value, the last fencing number reserved, token of the present
 * holder, its owner. */
static const char note_lua[] =
    GET_LUA "if get(KEYS[1]) ~= ARGV[1] then return 0 end\n"
            "local t = redis.call('TIME')\n"
            "redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. t[1] .. "
            "string.format('%03d ', t[2] / 1000) "
            "  .. ARGV[3] .. ' ' .. ARGV[4], 'PX', 604800000)\n"
            "return 1\n";

/* Answers {held, value, PTTL, info, how many wait, the first of them}. A value that is no string is shown as
 * held by somebody. */
#define LOOK_LUA                                                                                             \
    GET_LUA                                                                                                  \
    "local function look()\n"                                                                                \
    "  local v = get(KEYS[1])\n"                                                                             \
    "  local info = redis.pcall('GET', KEYS[2])\n"                                                           \
    "  local count = redis.pcall('ZCARD', KEYS[3])\n"                                                        \
    "  local queue = redis.pcall('ZRANGE', KEYS[3], 0, 999)\n"                                               \
    "  return {v and 1 or 0, v or '', redis.call('PTTL', KEYS[1]), "                                         \
    "    type(info) == 'string' and info or '', type(count) == 'number' and count or 0, "                    \
    "    queue.err and {} or queue}\n"                                                                       \
    "end\n"

static const char show_lua[] = LOOK_LUA "return look()\n";

static const char break_lua[] =
    LOOK_LUA HAND_OVER_LUA "local seen = look()\n"
                           "if seen[1] == 1 then\n"
                           "  redis.call('DEL', KEYS[1])\n"
                           "  hand_over(KEYS[1], KEYS[2], KEYS[3], redis.pcall('ZPOPMIN', KEYS[3])[1])\n"
                           "end\n"
                           "return seen\n";

const char *lk_script_text(enum lk_script which)
{
    static const char *const texts[LK_SCRIPT_COUNT] = {
        [LK_SCRIPT_ACQUIRE] = acquire_lua, [LK_SCRIPT_RELEASE] = release_lua, [LK_SCRIPT_RENEW] = renew_lua,
        [LK_SCRIPT_NOTE] = note_lua,       [LK_SCRIPT_SHOW] = show_lua,       [LK_SCRIPT_BREAK] = break_lua,
    };
    return texts[which];
}

void lk_script_begin(const struct lk_redis *r, struct lk_argv *a, enum lk_script which, bool whole,
                     const struct lk_keys *keys)
{
    a->argc = 0;
    if (whole || r->sha[which][0] == '\0') {
        lk_argv_add(a, "EVAL", 4);
        lk_argv_text(a, lk_script_text(which));
    } else {
        lk_argv_add(a, "EVALSHA", 7);
        lk_argv_add(a, r->sha[which], 40);
    }
    lk_argv_add(a, "3", 1);
    lk_argv_add(a, keys->lock, keys->lock_len);
    lk_argv_add(a, keys->info, keys->info_len);
    lk_argv_add(a, keys->queue, keys->queue_len);
}
