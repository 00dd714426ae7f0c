/* recovery_scripts.c: the Lua with which an instance with `recovery` runs: that of scripts.c behind a look at the mark
 * (recovery.h), and renewing, which may bring a lock back. Models/recovery.pml is its model.
 *
 * The mark's name is the last of KEYS, and the life of the server that the caller speaks with the last of ARGV; what stands
 * behind does not see them. */
#include <stdlib.h>
#include <string.h>

#include "admit_lua.h"
#include "recovery_scripts.h"

/* Why a mark and not the server's INFO: a script that reads INFO costs more than the lock. A restart changes the run id, a promotion
 * the replication id, and FLUSHALL or a start without data removes the mark with the locks, so each loss shows. A replica that is
 * made master has its master's mark, of an earlier life. The server's uptime is not subtracted from the time of waiting: that would be
 * right after a restart and wrong after FLUSHALL, and a later client cannot tell these apart. So the first lock of a namespace waits,
 * too. A Cluster would need a mark for each slot, because a script sees the keys of a single slot.
 *
 * A renewal that arrives late may set a lock that no client holds, for a TTL. It takes a lock from a later holder only until that
 * holder's next renewal, and nothing is granted before that. */

/* KEYS: the mark; ARGV: the life, `recovery` in ms. Whoever meets data of which this life is not known begins the time in which
 * nothing is granted. Answers how many ms are left of it; 0 or less: none. */
static const char meet_lua[] =
    "local life, mark = ARGV[1], redis.call('GET', KEYS[1])\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "local other = mark and string.match(mark, '^(%d+) ')\n"
    "if other and other ~= ARGV[2] then return redis.error_reply('" LK_REDIS_RECOVERS "' .. other) end\n"
    "if mark and string.sub(mark, 1, #life) == life then\n"
    "  local left = (tonumber(string.sub(mark, #life + 1)) or 0) - now\n"
    "  if left <= tonumber(ARGV[2]) then return left end\n"
    "end\n"
    "redis.call('SET', KEYS[1], life .. string.format('%.0f', now + ARGV[2]))\n"
    "return tonumber(ARGV[2])\n";
const char *const lk_redis_recovery_meet_text = meet_lua;

/* left: of that time, in ms; master(): an error where a server that has become a replica would say what is not there. */
#define KNOWN_LUA                                                                                            \
    "local life, name = table.remove(ARGV), table.remove(KEYS)\n"                                            \
    "local mark = redis.call('GET', name)\n"                                                                 \
    "if not mark or string.sub(mark, 1, #life) ~= life then\n"                                               \
    "  local other = mark and string.match(mark, '^(%d+) ')\n"                                               \
    "  if other and other ~= string.match(life, '^(%d+) ') then\n"                                           \
    "    return redis.error_reply('" LK_REDIS_RECOVERS "' .. other)\n"                                       \
    "  end\n"                                                                                                \
    "  return redis.error_reply('FORGOTTEN the data are not of this life of the server')\n"                  \
    "end\n"                                                                                                  \
    "local clock = redis.call('TIME')\n"                                                                     \
    "local now = clock[1] * 1000 + math.floor(clock[2] / 1000)\n"                                            \
    "local left = (tonumber(string.sub(mark, #life + 1)) or 0) - now\n"                                      \
    "if left > tonumber(string.match(life, '^%d+')) then\n"                                                  \
    "  return redis.error_reply('FORGOTTEN the clock was set back')\n"                                       \
    "end\n"                                                                                                  \
    "local function master() redis.call('DEL', name .. ':{') end\n"

/* Grants, and answers about who holds a lock, have to wait. */
#define SETTLED_LUA                                                                                          \
    KNOWN_LUA                                                                                                \
    "if left > 0 then\n"                                                                                     \
    "  return redis.error_reply('" LK_REDIS_RECOVERING "' .. string.format('%.0f', left))\n"                 \
    "end\n"

/* Whether a holder whose deadline has not passed may take what stands in his place: nothing; or a lock of ours that is not known to
 * have a greater token: an earlier holder's that the server did not see given back. What a foreign client has, stays: the second half
 * of our values begins with one of 0 to 7 (value.c), which no UUID's does. `info`: the name of it. */
#define YIELDS_LUA                                                                                           \
    "local function yields(v, info, token)\n"                                                                \
    "  if not v or #v == 33 and string.find(v, '^E%x+$') then return true end\n"                             \
    "  local epoch = string.match(v, '^S(%d+)$') or string.match(v, '^P(%d+)/%d+$')\n"                       \
    "  if epoch then return tonumber(epoch) < tonumber(token) end\n"                                         \
    "  if #v ~= 32 or string.find(v, '[^0-9a-f]') or string.find(v, '^[89a-f]', 17) then return false end\n" \
    "  local text = redis.pcall('GET', info)\n"                                                              \
    "  local n = type(text) == 'string' and string.sub(text, 1, 33) == v .. ' ' and\n"                       \
    "    string.match(text, '^%d+ (%d+) ', 34)\n"                                                            \
    "  return not n or tonumber(n) < tonumber(token)\n"                                                      \
    "end\n"

/* Meanwhile a lock is given back and not handed on: who waits may stand behind a holder of whom the server does not know. Behind
 * the arguments of scripts.c: the token. Answers 2 as well: the lock was not there, and nobody else has got it since it was lost. */
static const char release_lua[] =
    KNOWN_LUA "master()\n"
              "if left > 0 then\n" YIELDS_LUA
              "  local v, beside = redis.pcall('GET', KEYS[1]), string.sub(KEYS[2], 1, -6)\n"
              "  if type(v) == 'table' then\n"
              "    if not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
              "    v = '?'\n"
              "  end\n"
              "  if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end\n"
              "  redis.pcall('SET', beside .. 'given:' .. ARGV[1], '1', 'PX', left)\n"
              "  if v == ARGV[1] then\n"
              "    redis.call('DEL', KEYS[1])\n"
              "    if KEYS[4] then redis.pcall('DEL', KEYS[4]) end\n"
              "    return 1\n"
              "  end\n"
              "  if redis.pcall('GET', beside .. 'broken:' .. ARGV[1]) then return -1 end\n"
              "  return yields(v, beside .. 'info', ARGV[4]) and 2 or 0\n"
              "end\n";

/* put(): SET, and false if the server can't write now; an error if it has become a replica. */
#define PUT_LUA                                                                                              \
    "local function put(...)\n"                                                                              \
    "  local set = redis.pcall('SET', ...)\n"                                                                \
    "  if set.err and string.find(set.err, 'READONLY', 1, true) then master() end\n"                         \
    "  return not set.err\n"                                                                                 \
    "end\n"

/* KEYS: locks, and behind each its info and its counter; ARGV: for each its value, ttl_ms, token, the last number of its grant,
 * and its info. Answers a string with 1 or 0 for each; -: the server had no memory to write. Meanwhile a lock that is not there is set again, unless it was broken; the
 * counter is lifted, so that later grants have greater numbers: above the time, as one that is not there would be, since other locks
 * of the slot may have had greater numbers; and each has its info, by which a later one is told from an earlier. */
static const char renew_lua[] = KNOWN_LUA YIELDS_LUA PUT_LUA
    "local time = clock[1] * 1000000 + clock[2]\n"
    "local out = {}\n"
    "for i = 1, #KEYS / 3 do\n"
    "  local lock, info, counter = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]\n"
    "  local value, ttl, token, last, text = unpack(ARGV, 5 * i - 4, 5 * i)\n"
    "  local v = redis.pcall('GET', lock)\n"
    "  if type(v) == 'table' then\n"
    "    if not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
    "    v = '?'\n"
    "  end\n"
    "  if left > 0 and v ~= value and yields(v, info, token) and\n"
    "    not redis.pcall('GET', string.sub(info, 1, -5) .. 'broken:' .. value) and\n"
    "    not redis.pcall('GET', string.sub(info, 1, -5) .. 'given:' .. value) then\n"
    "    v = put(lock, value, 'PX', ttl) and value or '-'\n"
    "  elseif v == value then\n"
    "    redis.call('PEXPIRE', lock, ttl)\n"
    "  end\n"
    "  if v == value and left > 0 then\n"
    "    local n = redis.pcall('GET', counter)\n"
    "    local low = not n or (type(n) == 'string' and (tonumber(n) or 0) < tonumber(last))\n"
    "    if low and not put(counter, string.format('%.0f', math.max(time, last))) then v = '-' end\n"
    "    if not put(info, text, 'PX', ttl) then v = '-' end\n"
    "  elseif v == value then\n"
    "    redis.pcall('PEXPIRE', info, ttl)\n"
    "  end\n"
    "  if v ~= value and v ~= '-' then master() end\n"
    "  out[i] = v == value and '1' or v == '-' and '-' or '0'\n"
    "end\n"
    "return table.concat(out)\n";

/* Of one of several who hold a lock: behind the arguments of shared_told.h, the token, and the marker of its set. */
static const char shared_release_lua[] = KNOWN_LUA
    "master()\n"
    "if left > 0 then\n" YIELDS_LUA
    "  local v, beside, one = redis.pcall('GET', KEYS[1]), string.sub(KEYS[2], 1, -6), ARGV[1]\n"
    "  if type(v) == 'table' then\n"
    "    if not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
    "    v = '?'\n"
    "  end\n"
    "  if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end\n"
    "  redis.pcall('SET', beside .. 'given:' .. one, '1', 'PX', left)\n"
    "  local kind, epoch = string.match(v or '', " MARKER_LUA ")\n"
    "  local set = kind and beside .. 'shared:' .. epoch\n"
    "  if kind and redis.call('ZSCORE', set, one) then\n" LEAVE_LUA
    "    if redis.call('ZCARD', set) == 0 then redis.call('DEL', KEYS[1]) return 1 end\n" LATEST_LUA(
        "KEYS[1]") "    return 1\n"
                   "  end\n"
                   "  if redis.pcall('GET', beside .. 'broken:' .. one) then return -1 end\n"
                   "  return (v == ARGV[5] or yields(v, beside .. 'info', ARGV[4])) and 2 or 0\n"
                   "end\n";

/* KEYS: as of *renew*, but the queue behind each lock; ARGV: for each its value, ttl_ms, number, the marker of its set, slot, and
 * info. Meanwhile each that was in a set enters it again under its marker. */
static const char shared_renew_lua[] = KNOWN_LUA YIELDS_LUA PUT_LUA
    "local time = clock[1] * 1000000 + clock[2]\n"
    "local out = {}\n"
    "local function renew(i)\n"
    "  local lock, queue, counter = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]\n"
    "  local value, ttl, token, marker, slot, text = unpack(ARGV, 6 * i - 5, 6 * i)\n"
    "  local beside = string.sub(queue, 1, -6)\n"
    "  local set, kind = beside .. 'shared:' .. string.match(marker, '%d+'), string.sub(marker, 1, 1)\n"
    "  local v = redis.pcall('GET', lock)\n"
    "  if type(v) == 'table' then\n"
    "    if not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
    "    v = '?'\n"
    "  end\n"
    "  local ends = v == marker and redis.call('ZSCORE', set, value)\n"
    "  local is = ends and tonumber(ends) >= now and '1' or '0'\n"
    "  if is == '1' then\n" WRITE_LUA "  end\n"
    "  if left > 0 and is == '0' and (v == marker or yields(v, beside .. 'info', token)) and\n"
    "    not redis.pcall('GET', beside .. 'broken:' .. value) and\n"
    "    not redis.pcall('GET', beside .. 'given:' .. value) then\n"
    "    local fits = v == marker or put(lock, marker, 'PX', ttl)\n"
    "    is = fits and '1' or '-'\n"
    "    if fits and string.sub(marker, 1, 1) == 'P' then redis.call('ZADD', set .. ':slots', slot, value) end\n"
    "  end\n"
    "  if is == '1' then\n"
    "    redis.call('ZADD', set, now + ttl, value)\n"
    "    if left > 0 then\n"
    "      redis.call('HSET', set .. ':info', value, text)\n"
    "      local n = redis.pcall('GET', counter)\n"
    "      if not n or (type(n) == 'string' and (tonumber(n) or 0) < tonumber(token)) then\n"
    "        if not put(counter, string.format('%.0f', math.max(time, token))) then is = '-' end\n"
    "      end\n"
    "    end\n" LATEST_LUA("lock") "  elseif is == '0' then\n"
                                   "    master()\n"
                                   "  end\n"
                                   "  out[i] = is\n"
                                   "end\n" EACH_LUA("#KEYS / 3") "return table.concat(out)\n";

static const char settled_lua[] = SETTLED_LUA;

/* What stands before that of scripts.c; of renewals, instead of it; NULL: nothing. */
static const char *const before[LK_REDIS_SCRIPT_COUNT] = {
    [LK_REDIS_SCRIPT_ACQUIRE] = settled_lua,
    [LK_REDIS_SCRIPT_RELEASE] = release_lua,
    [LK_REDIS_SCRIPT_RENEW] = renew_lua,
    [LK_REDIS_SCRIPT_SHOW] = settled_lua,
    [LK_REDIS_SCRIPT_BREAK] = settled_lua,
    [LK_REDIS_SCRIPT_SHARED_ACQUIRE] = settled_lua,
    [LK_REDIS_SCRIPT_SHARED_RELEASE] = shared_release_lua,
    [LK_REDIS_SCRIPT_SHARED_RENEW] = shared_renew_lua,
    [LK_REDIS_SCRIPT_SHARED_SHOW] = settled_lua,
    [LK_REDIS_SCRIPT_SHARED_BREAK] = settled_lua,
};

static const char *behind(size_t which)
{
    return which == LK_REDIS_SCRIPT_RENEW || which == LK_REDIS_SCRIPT_SHARED_RENEW
               ? ""
               : lk_redis_script_text[which];
}

char *lk_redis_recovery_scripts_make(const char *text[LK_REDIS_SCRIPT_COUNT])
{
    size_t room = 0;
    for (size_t i = 0; i < LK_REDIS_SCRIPT_COUNT; i++)
        room += (before[i] != NULL ? strlen(before[i]) : 0) + strlen(behind(i)) + 1;
    char *const all = malloc(room);
    char *out = all;
    for (size_t i = 0; all != NULL && i < LK_REDIS_SCRIPT_COUNT; i++) {
        text[i] = out;
        out = stpcpy(stpcpy(out, before[i] != NULL ? before[i] : ""), behind(i)) + 1;
    }
    return all;
}
