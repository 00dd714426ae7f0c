/* admit_lua.h: parts of scripts about a lock that several hold at once, shared or by permits (scripts.c puts them together).
 *
 * The lock is then a marker, `S<epoch>` or `P<epoch>/<permits>`: foreign clients see it held. The epoch is the fencing number of who
 * began the set, so no set ever has another's marker. Beside the queue stand, in `shared:<epoch>`, the values of those who hold it by
 * the end of their leases (ms of the server's clock); in `shared:<epoch>:info` for each "since_ms token slot instance told owner" (told 0: it does not
 * hear of its number; 2 and 3 are 0 and 1, where an earlier release let it in); of
 * permits, in `shared:<epoch>:slots` the values by slot. A value that is not in the set that the lock's marker names holds nothing:
 * who looks for one begins at the lock. The marker ends with the latest of the leases, and whatever takes one away lowers it.
 *
 * A set begins when one asks. Where a lock is handed on to one who wants to share it, it is `E` and that one's value until then.
 *
 * In the queue stand `S` or `P` before the members of those that want to share (claim.h). An earlier
 * release's scripts take them for nothing, and drop them; they ask again by themselves. Models/shared.pml is the model. */
#pragma once

#define MARKER_LUA "'^([SP])(%d+)/?(%d*)$'"

#define NOW_LUA                                                                                              \
    "local clock = redis.call('TIME')\n"                                                                     \
    "local now = clock[1] * 1000 + math.floor(clock[2] / 1000)\n"

#define SET_NAME_LUA(queue) "string.sub(" queue ", 1, -6) .. 'shared:' .. "

/* Whether a break names who has this info: by the token, by `=` and the owner, '': any. Nobody whose number is behind `newest`: he has
 * come since it began. */
#define NAMED_LUA                                                                                            \
    "local function is_named(info, token, owner, newest)\n"                                                  \
    "  if token == '' and owner == '' and newest == '' then return true end\n"                               \
    "  local t, o = string.match(info, '^%S+ (%S+) %S+ %S+ %S+ (.*)$')\n"                                    \
    "  return (token == '' or token == t) and\n"                                                             \
    "    (owner == '' or owner == '=' .. (o or '')) and\n"                                                   \
    "    (newest == '' or (tonumber(t) or 0) <= tonumber(newest))\n"                                         \
    "end\n"

/* `one` leaves. */
#define LEAVE_LUA                                                                                            \
    "redis.call('ZREM', set, one)\n"                                                                         \
    "redis.call('HDEL', set .. ':info', one)\n"                                                              \
    "if kind == 'P' then redis.call('ZREM', set .. ':slots', one) end\n"

/* Before what changes one who is there already. A server without memory refuses whatever may take some, ZADD too, until the script
 * has written something: then nothing would be renewed or broken any more. This writes, and changes nothing. */
#define WRITE_LUA "redis.call('ZREM', set, '')\n"

/* The lock, and what stands beside it, end with the latest lease. */
#define LATEST_LUA(lock)                                                                                     \
    "local latest = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')[2] or now\n"                             \
    "for _, name in ipairs({" lock ", set, set .. ':info', kind == 'P' and set .. ':slots' or nil}) do\n"    \
    "  redis.call('PEXPIREAT', name, latest)\n"                                                              \
    "end\n"

/* Call `renew` for each of so many, which sets its place in `out`, or returns an error for all. Where a key is of another type than it
 * should be, that one is not ours any more, and no reason to lose the others. Servers before 7 put the line of the script before an
 * error. */
#define EACH_LUA(many)                                                                                       \
    "for i = 1, " many " do\n"                                                                               \
    "  local done, why = pcall(renew, i)\n"                                                                  \
    "  if done and why then return why end\n"                                                                \
    "  if not done then\n"                                                                                   \
    "    local text = type(why) == 'table' and why.err or why\n"                                             \
    "    if not string.find(text, '^-?WRONGTYPE ') and not string.find(text, ': %-WRONGTYPE ') then\n"       \
    "      return redis.error_reply(text)\n"                                                                 \
    "    end\n"                                                                                              \
    "    out[i] = '0'\n"                                                                                     \
    "  end\n"                                                                                                \
    "end\n"

/* In a slot of a cluster that is on its way a key that has gone is an error: before anything is written. */
#define ALL_HERE_LUA                                                                                         \
    "redis.call('HGET', set .. ':info', '')\n"                                                               \
    "if kind == 'P' then redis.call('ZCARD', set .. ':slots') end\n"

/* Of the lock's value v: kind, limit, set, and how `many` are in it; nil: it is no marker. Whose leases are `over` leave. */
#define MEMBERS_LUA                                                                                          \
    NOW_LUA                                                                                                  \
    "local kind, epoch, limit = string.match(v or '', " MARKER_LUA ")\n"                                     \
    "local set, many, over = nil, 0, {}\n"                                                                   \
    "if kind then\n"                                                                                         \
    "  set = " SET_NAME_LUA(                                                                                 \
        "KEYS[2]") "epoch\n" ALL_HERE_LUA                                                                    \
                   "  over = redis.call('ZRANGEBYSCORE', set, '-inf', '(' .. now, 'LIMIT', 0, 1000)\n"       \
                   "  if over[1] then\n"                                                                     \
                   "    redis.call('ZREM', set, unpack(over))\n"                                             \
                   "    redis.call('HDEL', set .. ':info', unpack(over))\n"                                  \
                   "    if kind == 'P' then redis.call('ZREM', set .. ':slots', unpack(over)) end\n"         \
                   "  end\n"                                                                                 \
                   "  many = redis.call('ZCARD', set)\n"                                                     \
                   "end\n"

/* `value` enters, as k, most, inst, owner, ttl say; it begins a set where there is none. Of permits it has the least free slot: the
 * least that so many as are below or at it don't fill. Sets n, its number, and `grown`, or goes by `fails`. What the lock says of the
 * latest lease comes behind. A set that begins is told its end at once, and whether it may be told before it is there: a right that is
 * missing ends the script at any line, and nothing may stay for ever. */
#define ENTER_LUA(fails)                                                                                                  \
    "local n, count, slot, begins = nil, 1, 0\n" NUMBER_LUA "if type(n) ~= 'number' then " fails " end\n"                 \
    "local token = string.format('%.0f', n)\n"                                                                            \
    "if not kind then\n"                                                                                                  \
    "  kind, epoch, limit, many, set = k, token, most, 0, " SET_NAME_LUA(                                                 \
        "KEYS[2]") "token\n"                                                                                              \
                   "  begins = true\n"                                                                                    \
                   "  redis.call('PEXPIREAT', set, now)\n"                                                                \
                   "end\n"                                                                                                \
                   "if kind == 'P' then\n"                                                                                \
                   "  local high = many\n"                                                                                \
                   "  while slot < high do\n"                                                                             \
                   "    local mid = math.floor((slot + high) / 2)\n"                                                      \
                   "    if redis.call('ZCOUNT', set .. ':slots', 0, mid) > mid then slot = mid + 1 else high = mid end\n" \
                   "  end\n"                                                                                              \
                   "end\n"                                                                                                \
                   "local told = string.gsub(owner, '^[23]', {['2'] = '0', ['3'] = '1'})\n"                               \
                   "redis.call('HSET', set .. ':info', value,\n"                                                          \
                   "  now .. ' ' .. token .. ' ' .. slot .. ' ' .. inst .. ' ' .. told)\n"                                \
                   "if begins then redis.call('PEXPIREAT', set .. ':info', now + ttl) end\n"                              \
                   "redis.call('ZADD', set, now + ttl, value)\n"                                                          \
                   "if begins then redis.call('PEXPIREAT', set, now + ttl) end\n"                                         \
                   "if kind == 'P' then redis.call('ZADD', set .. ':slots', slot, value) end\n"                           \
                   "if begins and kind == 'P' then redis.call('PEXPIREAT', set .. ':slots', now + ttl) end\n"             \
                   "if begins then\n"                                                                                     \
                   "  redis.call('SET', KEYS[1], k .. token .. (k == 'P' and '/' .. most or ''), 'PX', ttl)\n"            \
                   "end\n"                                                                                                \
                   "many, grown = many + 1, true\n"

/* Those at the head of the queue enter, as far as they can beside those who hold the lock; each is told, and asks what it got. Who
 * does not listen any more goes, whatever it wants. `member`: it stays where it is. At most 100 are looked at. */
#define ADMIT_LUA                                                                                            \
    "for turn = 1, 100 do\n"                                                                                 \
    "  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]\n"                                               \
    "  if not first or first == member or first == 'free' then break end\n"                                  \
    "  local k, inst, value, ttl, most, owner = string.match(first,\n"                                       \
    "    '^([SP]?)(%x+) (%x+) ([1-9]%d*) (%d+) (.*)$')\n"                                                    \
    "  if not k or #inst ~= 32 or #value ~= 32 then\n"                                                       \
    "    redis.call('ZREM', KEYS[2], first)\n"                                                               \
    "  elseif k == kind and (k == 'S' or most == limit and many < tonumber(limit)) then\n"                   \
    "    local text = value .. ' enter ' .. KEYS[1]\n"                                                       \
    "    pcall(redis.set_repl, redis.REPL_NONE)\n"                                                           \
    "    local heard = " TELL_LUA "\n"                                                                       \
    "    pcall(redis.set_repl, redis.REPL_ALL)\n"                                                            \
    "    redis.call('ZREM', KEYS[2], first)\n"                                                               \
    "    if type(heard) == 'number' and heard > 0 then\n" ENTER_LUA(                                         \
        "break") "    end\n"                                                                                 \
                 "  else\n"                                                                                  \
                 "    local ears = " EARS_LUA "\n"                                                           \
                 "    if ears == nil or tonumber(ears) > 0 then break end\n"                                 \
                 "    redis.call('ZREM', KEYS[2], first)\n"                                                  \
                 "  end\n"                                                                                   \
                 "end\n"

/* Nobody holds the lock, and `first`, which came at `since`, wants to be one of several: the lock is kept for it, as `E<value>`, for
 * as long as it would have had it, and it is told to ask. `t`: it is left free for a moment, and the first is asked to come then. */
#define RESERVE_LUA                                                                                          \
    "local inst, value, ttl = string.match(first, '^[SP](%x+) (%x+) ([1-9]%d*) ')\n"                         \
    "local text = (value or '') .. ' enter ' .. KEYS[1]\n"                                                   \
    "pcall(redis.set_repl, redis.REPL_NONE)\n"                                                               \
    "local heard = inst and " TELL_LUA "\n"                                                                  \
    "pcall(redis.set_repl, redis.REPL_ALL)\n"                                                                \
    "if type(heard) == 'number' and heard > 0 then\n"                                                        \
    "  if t then\n"                                                                                          \
    "    redis.pcall('ZADD', KEYS[2], since, first)\n"                                                       \
    "    break\n"                                                                                            \
    "  end\n"                                                                                                \
    "  if not redis.pcall('SET', KEYS[1], 'E' .. value, 'PX', ttl).err then return answer end\n"             \
    "end\n"
