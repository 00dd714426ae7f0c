/* scripts_told.h: the scripts that tell others something. It is included once for one server and once for a cluster, where that
 * goes by other channels (scripts.c). KEYS and what the scripts have in common are told there. */

/* KEYS[4]: where earlier releases count the lock's numbers; ours go on from there. ARGV: value, ttl_ms, member of the queue or
 * '', how long the queue is kept in ms, how many numbers the grant wants (0: no fencing), whether to try first if we could
 * release it (1 or 0), whether the server may know the value: from the queue, or by an attempt of unknown outcome (1 or 0); a
 * mark of it is about a grant that nobody was told of then. Answers the last of the numbers (1 without fencing) when it is
 * ours, or {that, how many there are} where more than one were wanted; else {PTTL, the counter, s}, where s is 2^24 times how
 * many stand in the queue, and twice the member's place there, from 1 on (0: it has none). Ours already: a lost reply, or handed
 * over; then the lease starts anew, with new numbers. One more of s: it is left free for others for as long as the first number
 * says (HAND_OVER_LUA). 2^52 more: it is a hash. An error NOLOCK and a type: it is an application's data. */
static const char OF_KIND(acquire_lua)[] = BEGIN_LUA
    "local value, ttl, member = ARGV[1], ARGV[2], ARGV[3]\n"
    "if ARGV[6] == '1' then\n"
    "  local v = redis.pcall('GET', KEYS[1])\n"
    "  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
    "end\n"
    "if ARGV[7] == '1' then redis.pcall('DEL', " MARK_LUA "value) end\n"
    "local set = redis.pcall('SET', KEYS[1], value, 'NX', 'PX', ttl)\n"
    "local left\n"
    "local free = set and not set.err and member ~= '' and redis.pcall('ZSCORE', KEYS[2], 'free')\n"
    "if type(free) == 'string' then\n"
    "  local t = redis.call('TIME')\n"
    "  left = free - " FREE_BASE " - t[1] * 1000000 - t[2]\n"
    "  left = left > 0 and left <= " FREE_US " and math.ceil(left / 1000)\n"
    "  if left then redis.call('DEL', KEYS[1]) set = false end\n"
    "end\n"
    "if not set or set.err then\n"
    "  local v, state = redis.pcall('GET', KEYS[1]), left and 1 or 0\n"
    "  if type(v) == 'table' and string.find(v.err, 'WRONGTYPE', 1, true) then\n" NO_LOCK_LUA
    "    state = state + " HASH_STATE "\n"
    "  end\n"
    "  if v == value then\n"
    "    redis.call('PEXPIRE', KEYS[1], ttl)\n"
    "  elseif set then\n"
    "    return set\n"
    "  elseif type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then\n"
    "    return v\n"
    "  elseif type(v) == 'string' and string.find(v, '^P%d+/%d+$') then\n"
    "    if member ~= '' then redis.pcall('ZREM', KEYS[2], member) end\n"
    "    return {3, tonumber(string.match(v, '%d+$')), 0, 0}\n"
    "  else\n"
    "    if member ~= '' then\n"
    "      local there = redis.pcall('PEXPIRE', KEYS[2], ARGV[4])\n"
    "      if type(there) == 'number' then\n" ENROL_LUA "      end\n"
    "      local queue = KEYS[2]\n" CLEAR_DOUBT_LUA
    "      if there == 0 then redis.pcall('PEXPIRE', KEYS[2], ARGV[4]) end\n"
    "      local rank, count = redis.pcall('ZRANK', KEYS[2], member), redis.pcall('ZCARD', KEYS[2])\n"
    "      if type(rank) == 'number' and rank < 8388607 and type(count) == 'number' then\n"
    "        state = state + 2 * (rank + 1) + 16777216 * count\n"
    "      end\n"
    "    end\n"
    "    local last = redis.pcall('GET', KEYS[3])\n"
    "    return {left or redis.call('PTTL', KEYS[1]), type(last) == 'string' and tonumber(last) or 0, state}\n"
    "  end\n"
    "end\n"
    "if ARGV[7] == '1' and member ~= '' and redis.pcall('ZREM', KEYS[2], member) == 1 then\n"
    "  local lock, queue, near = KEYS[1], KEYS[2], 2\n" TELL_NEAR_LUA "end\n"
    "if ARGV[5] == '0' then return 1 end\n" COUNTER_LUA "local old = redis.pcall('GET', KEYS[4])\n"
    "if type(old) == 'string' and string.find(old, '^%d+$') and tonumber(old) < " NUMBER_END " then\n"
    "  above = tonumber(old)\n"
    "  least = math.max(least, above)\n"
    "end\n"
    "local n, count = nil, tonumber(ARGV[5])\n" NUMBER_LUA "if type(n) ~= 'number' then\n"
    "  if set then redis.call('DEL', KEYS[1]) end\n"
    "  return n\n"
    "end\n"
    "return ARGV[5] == '1' and n or {n, count}\n";

/* KEYS[4], where it is given: the info, which the server was told. ARGV: value, member of the queue or '', for how many us it
 * has been handed on. Answers 1: it was ours, and is the next one's or nobody's; 0: it was not ours, and nothing has changed;
 * -1: likewise, and it was taken away by break. A member that goes while the lock is left free may be the one that was told to
 * ask; then nobody else would take it before a look. So the next is told. And so is one that it kept from those who hold the
 * lock together. */
static const char OF_KIND(release_lua)[] = BEGIN_LUA
    "local gone = ARGV[2] ~= '' and redis.pcall('ZREM', KEYS[2], ARGV[2])\n"
    "local v, answer, direct = redis.pcall('GET', KEYS[1]), 1, tonumber(ARGV[3])\n"
    "if gone == 1 then\n"
    "  local lock, queue, near = KEYS[1], KEYS[2], 2\n" TELL_NEAR_LUA "end\n"
    "if not v and gone == 1 and type(redis.pcall('ZSCORE', KEYS[2], 'free')) == 'string' then\n"
    "  answer, direct = 0, " ASK_US "\n"
    "elseif v ~= ARGV[1] then\n"
    "  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end\n"
    "  if gone == 1 and type(v) == 'string' and string.find(v, '^[SP]%d') then\n"
    "    local first = redis.pcall('ZRANGE', KEYS[2], 0, 0)[1]\n"
    "    local inst, value = string.match(first or '', '^[SP](%x+) (%x+) ')\n"
    "    local text = (value or '') .. ' enter ' .. KEYS[1]\n"
    "    if inst then " TELL_LUA " end\n"
    "  end\n"
    "  v = redis.pcall('GET', " MARK_LUA "ARGV[1])\n"
    "  " MASTER_LUA "  return v and (type(v) == 'table' and v or -1) or 0\n"
    "end\n"
    "if KEYS[4] then redis.pcall('DEL', KEYS[4]) end\n" COUNTER_LUA HAND_OVER_LUA "return answer\n";

/* For those who wait, how it stands with their locks. KEYS: locks, and behind each its queue; ARGV: how long the queues are
 * kept in ms, and then the member of each who asks. Of a queue's first three those go whose process does not listen any more, or is
 * silent (100 in all, for the server serves nobody else meanwhile), and who comes to stand among them is told. Answers three numbers
 * for each: PTTL, how many stand before the member (-1: it is not there), how many stand there. What writes first is called so
 * that a server which has become a replica says so. */
static const char OF_KIND(wait_lua)[] = WAIT_BEGIN_LUA
    "local out, n, most = {}, #KEYS / 2, 100\n" NOW_LUA DROP_SILENT_LUA "for i = 1, n do\n"
    "  local lock, queue, member = KEYS[2 * i - 1], KEYS[2 * i], ARGV[1 + i]\n"
    "  redis.call('PEXPIRE', queue, ARGV[1])\n"
    "  local value, ttl = string.match(member, '^%S+ (%x+) (%d+) ')\n"
    "  if value then\n" CLEAR_DOUBT_LUA "  end\n"
    "  most = most - drop_silent(lock, queue, member, most)\n"
    "  local rank, count = redis.pcall('ZRANK', queue, member), redis.pcall('ZCARD', queue)\n"
    "  out[3 * i - 2], out[3 * i - 1], out[3 * i] = redis.call('PTTL', lock),\n"
    "    type(rank) == 'number' and rank or -1, type(count) == 'number' and count or 0\n"
    "end\n"
    "return out\n";

/* ARGV: the value that the lock is to be taken from, or the type of what is no string, and 1 or 2 for which of the two it is, as
 * *show* answers them. Answers as it looked before; nothing has changed if the value is another. The holder is told on its own channel, which its info names; one that
 * has not written that yet, because it doesn't know of its grant, on the one that follows from the value (redis.c): behind the
 * message of its grant, however late that is, and with the counter, as the value may get the lock anew meanwhile.
 *
 * The mark tells a release whose first answer was lost that its lock was not its own any more. Such a release
 * answers OK only until the local deadline of its lease, which comes before the lease's end here, so the mark
 * need not last longer than that. It comes before the lock goes: in a slot of a cluster that is on its way it can't be made
 * here, and nothing is broken. (What changes nothing stands before it: a script that has written may go on where there is no
 * memory; and a user without the right to delete, whom MASTER_LUA's `may` shows, is refused before the holder is told.) */
static const char OF_KIND(break_lua)[] = BEGIN_LUA LOOK_LUA COUNTER_LUA MASTER_LUA
    "local answer, direct = look(), 0\n"
    "local value, ttl, info = answer[2], answer[3], answer[4]\n"
    "if answer[1] == tonumber(ARGV[2]) and value == ARGV[1] then\n"
    "  if #value == 32 then\n"
    "    if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) end\n"
    "    if ttl > 0 and type(may) == 'number' then may = redis.pcall('SET', " MARK_LUA
    "value, '1', 'PX', ttl) end\n"
    "    if type(may) == 'table' and may.err then return may end\n"
    "  end\n"
    "  local inst = string.sub(info, 1, #value + 1) == value .. ' ' and\n"
    "    string.match(info, '^%d+ %d+ (%x+) ', #value + 2)\n"
    "  local how = ' broken '\n"
    "  if not inst and #value == 32 then\n"
    "    inst = string.rep(string.sub(value, 1, 16), 2)\n"
    "    how = ' taken ' .. (string.match(answer[7], '^%d+$') or 0) .. ' '\n"
    "  end\n"
    "  local text = value .. how .. KEYS[1]\n"
    "  if inst then " TELL_LUA " end\n"
    "  redis.pcall('DEL', KEYS[4])\n" HAND_OVER_LUA "end\n"
    "return answer\n";
