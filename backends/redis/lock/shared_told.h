/* shared_told.h: the scripts of shared locks and permits, included as scripts_told.h is. KEYS are the lock, its queue and the
 * counter; admit_lua.h tells how it all stands in the server. */

/* KEYS[4]: where earlier releases count. ARGV: the member of the queue, which says all that is wanted; whether it may stand there (1 or
 * 0); how long the queue is kept in ms; whether the server may know the value (1 or 0). Answers {1, number, slot, epoch} when it
 * holds the lock, also since before: then its lease starts anew; {2, ms, the state, the counter} when it has to wait, as *acquire*
 * does, also for a hash or an application's data, where of permits the ms are until the first lease ends; {3, permits, 0, 0} when the lock is in use otherwise by one of ours. Nobody is
 * overtaken: those who came before enter first, or have the lock if it is free. No value of ours is a UUID in hex (value.c), as that of
 * a foreign client often is. */
static const char OF_KIND(shared_acquire_lua)[] = BEGIN_LUA GET_LUA COUNTER_LUA
    "local member, waits, direct = ARGV[1], ARGV[2] == '1', 0\n"
    "local k, inst, value, ttl, most, owner = string.match(member, '^([SP])(%x+) (%x+) (%d+) (%d+) (.*)$')\n"
    "local v, state = get(KEYS[1]), 0\n"
    "if v == '?' and redis.pcall('GET', KEYS[1]) ~= '?' then\n" NO_LOCK_LUA "  state = " HASH_STATE "\n"
    "end\n" MEMBERS_LUA "if kind and many == 0 then\n"
    "  kind = nil\n"
    "  if #over > 0 then\n"
    "    redis.call('DEL', KEYS[1])\n"
    "    v = false\n"
    "  end\n"
    "end\n"
    "if kind and redis.call('ZSCORE', set, value) then\n" WRITE_LUA
    "  redis.call('ZADD', set, now + ttl, value)\n" LATEST_LUA(
        "KEYS[1]") "  redis.call('ZREM', KEYS[2], member)\n"
                   "  local token, slot = string.match(redis.call('HGET', set .. ':info', value) or '', '^%d+ (%d+) (%d+) ')\n"
                   "  return {1, tonumber(token or 0), tonumber(slot or 0), tonumber(epoch)}\n"
                   "end\n"
                   "if ARGV[4] == '1' then redis.pcall('DEL', " MARK_LUA "value) end\n"
                   "if waits and ARGV[4] == '1' then\n"
                   "  local queue = KEYS[2]\n" CLEAR_DOUBT_LUA DROP_SILENT_LUA
                   "  drop_silent(KEYS[1], queue, member, 100)\n"
                   "end\n"
                   "local kept = v == 'E' .. value\n"
                   "local ours = kind or v and #v == 32 and not string.find(v, '[^0-9a-f]') and string.find(v, '^[0-7]', 17)\n"
                   "if ours and (k == 'P' or kind == 'P') and not (k == kind and limit == most) then\n"
                   "  redis.call('ZREM', KEYS[2], member)\n"
                   "  return {3, kind == 'P' and tonumber(limit) or 0, 0, 0}\n"
                   "end\n"
                   "local left = not v and waits and redis.call('ZSCORE', KEYS[2], 'free')\n"
                   "if left then\n"
                   "  left = left - " FREE_BASE " - clock[1] * 1000000 - clock[2]\n"
                   "  left = left > 0 and left <= " FREE_US " and math.ceil(left / 1000)\n"
                   "end\n"
                   "local function head()\n"
                   "  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]\n"
                   "  return not first or first == member or first == 'free'\n"
                   "end\n"
                   "if not v and not left and not head() then\n"
                   "  local answer = {2, -1, 0, 0}\n"
                   "  if waits then\n" ENROL_SHARED_LUA "  end\n" HAND_OVER_LUA "end\n"
                   "local granted, grown\n"
                   "for pass = 1, 2 do\n"
                   "  if kind then\n" ADMIT_LUA "  end\n"
                   "  if granted then break end\n"
                   "  if kept or not left and head() and (not v or kind and (k == 'S' or many < tonumber(limit))) then\n" ENTER_LUA(
                       "granted = n break") "    redis.call('ZREM', KEYS[2], member)\n"
                                            "    granted = {1, n, slot, tonumber(epoch)}\n"
                                            "  else\n"
                                            "    break\n"
                                            "  end\n"
                                            "end\n"
                                            "if grown then\n" LATEST_LUA(
                                                "KEYS[1]") "end\n"
                                                           "if granted then return granted end\n"
                                                           "if left then state = state + 1 end\n"
                                                           "if waits then\n"
                                                           "  local there = redis.call('PEXPIRE', KEYS[2], ARGV[3])\n" ENROL_SHARED_LUA
                                                           "  if there == 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end\n"
                                                           "  local rank, all = redis.call('ZRANK', KEYS[2], member), redis.call('ZCARD', KEYS[2])\n"
                                                           "  if rank and rank < 8388607 then state = state + 2 * (rank + 1) + 16777216 * all end\n"
                                                           "else\n" MASTER_LUA "end\n"
                                                           "if kind == 'P' then left = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2] - now end\n"
                                                           "local last = redis.pcall('GET', KEYS[3])\n"
                                                           "return {2, left or redis.call('PTTL', KEYS[1]), state, type(last) == 'string' and tonumber(last) or 0}\n";

/* ARGV: value, member of the queue or '', for how many us the lock has been handed on. Answers as *release* does; 1: its own place among
 * those who hold the lock is free, and who can enter has. One that goes from the queue may have stood before others that can. */
static const char OF_KIND(shared_release_lua)[] = BEGIN_LUA GET_LUA COUNTER_LUA
    "local one, member, answer, direct, grown = ARGV[1], ARGV[2], 0, tonumber(ARGV[3])\n"
    "local gone = member ~= '' and redis.pcall('ZREM', KEYS[2], member)\n"
    "local v = get(KEYS[1])\n" MEMBERS_LUA "if kind and redis.call('ZSCORE', set, one) then\n" LEAVE_LUA
    "  answer, many = 1, many - 1\n"
    "elseif type(redis.pcall('GET', " MARK_LUA "one)) == 'string' then\n"
    "  answer = -1\n"
    "end\n"
    "if kind and many > 0 then\n" ADMIT_LUA LATEST_LUA(
        "KEYS[1]") "elseif kind and (answer == 1 or #over > 0) or v == 'E' .. one then\n" HAND_OVER_LUA
                   "elseif not v and gone == 1 and type(redis.pcall('ZSCORE', KEYS[2], 'free')) == 'string' then\n"
                   "  direct = " ASK_US "\n" HAND_OVER_LUA "end\n"
                   "if answer ~= 1 then\n" MASTER_LUA "end\n"
                   "return answer\n";

/* ARGV: the marker that was seen; the values of those whose locks are to be taken away, one behind the other. Answers those of them
 * that were, in that order; none, too, when it is another marker by now. What it leaves of each is as *break* does. Each right that the
 * user may lack is asked for by a command that changes nothing, before the first of them is told. */
static const char OF_KIND(shared_break_lua)[] = BEGIN_LUA GET_LUA COUNTER_LUA MASTER_LUA
    "local v, answer, direct, member, grown = get(KEYS[1]), {}, 0\n"
    "if v ~= ARGV[1] then return answer end\n" MEMBERS_LUA "local before = many\n"
    "if many > 0 and ARGV[2] ~= '' then\n" WRITE_LUA "  redis.call('HDEL', set .. ':info', '')\n"
    "  redis.call('DEL', " NO_KEY_LUA ")\n" LATEST_LUA(
        "KEYS[1]") "end\n"
                   "for at = 1, #ARGV[2], 32 do\n"
                   "  local one = string.sub(ARGV[2], at, at + 31)\n"
                   "  local ends, info = redis.call('ZSCORE', set, one), redis.call('HGET', set .. ':info', one)\n"
                   "  if ends then\n" WRITE_LUA "    local mark = redis.pcall('SET', " MARK_LUA
                   "one, '1', 'PX', math.max(ends - now, 1))\n"
                   "    if mark.err then return mark end\n"
                   "    local token, inst = string.match(info or '', '^%d+ (%d+) %d+ (%x+) ')\n"
                   "    local text = one .. ' taken ' .. (token or '0') .. ' ' .. KEYS[1]\n"
                   "    if inst then " TELL_LUA " end\n" LEAVE_LUA "    many = many - 1\n"
                   "    answer[#answer + 1] = one\n"
                   "  end\n"
                   "end\n"
                   "if many > 0 then\n" ADMIT_LUA
    LATEST_LUA("KEYS[1]") "elseif before > 0 or #over > 0 then\n" HAND_OVER_LUA "end\n"
                          "return answer\n";
