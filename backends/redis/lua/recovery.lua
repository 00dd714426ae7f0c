-- recovery.lua: functions and scripts of a locker with `recovery` (embed.cmake).

-- part: recovery
-- needs: read
-- For a locker with `recovery` (recovery.h; models/recovery.pml is the model). The mark's name is the last of KEYS, and the life of the
-- server that the caller knows is the last of ARGV; the script behind does not see them.
--
-- Why a mark and not the server's INFO: a script that reads INFO costs more than the lock. A restart changes the run id, a promotion the
-- replication id, and FLUSHALL or a start without data removes the mark with the locks, so each loss shows. A replica that is made
-- master has its master's mark, of an earlier life. The server's uptime is not subtracted from the recovery time: that would be right
-- after a restart and wrong after FLUSHALL, and a later client cannot tell these apart. So the first lock of a namespace waits, too. A
-- cluster would need a mark for each slot, because a script sees the keys of a single slot.
--
-- A renewal that arrives late may set a lock that no client holds, for a TTL. It takes a lock from a later holder only until that
-- holder's next renewal, and nothing is granted before that.
local life, mark_name = table.remove(ARGV), table.remove(KEYS)

-- Return for how many ms the recovery time still lasts (0 or less: it is over), the server's time in us, and that in ms. Return nil and
-- an error if the data or the caller are of another life.
local function recovery_left()
  local mark = redis.call('GET', mark_name)
  if not mark or string.sub(mark, 1, #life) ~= life then
    local other = mark and string.match(mark, '^(%d+) ')
    if other and other ~= string.match(life, '^(%d+) ') then return nil, redis.error_reply('RECOVERY ' .. other) end
    return nil, redis.error_reply('FORGOTTEN the data are not of this life of the server')
  end
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local left = (tonumber(string.sub(mark, #life + 1)) or 0) - now
  if left > tonumber(string.match(life, '^%d+')) then return nil, redis.error_reply('FORGOTTEN the clock was set back') end
  return left, t[1] * 1000000 + t[2], now
end

-- End the script with an error if this server has become a replica: it would report as missing what the master has.
local function need_master()
  redis.call('DEL', mark_name .. ':{')
end

-- Return true if a holder with this token, whose deadline has not passed, may take the place of the value `v`: if there is no value, or
-- a lock of ours that is not known to have a greater token. Such a lock is an earlier holder's, whose release the server did not see.
-- A foreign client's value stays: the second half of our values begins with 0 to 7 (values.c), which no UUID's does. `info`: the name of
-- the lock's info.
local function yields(v, info, token)
  if not v or #v == 33 and string.find(v, '^E%x+$') then return true end
  local epoch = string.match(v, '^S(%d+)$') or string.match(v, '^P(%d+)/%d+$')
  if epoch then return tonumber(epoch) < tonumber(token) end
  if #v ~= 32 or string.find(v, '[^0-9a-f]') or string.find(v, '^[89a-f]', 17) then return false end
  local text = redis.pcall('GET', info)
  local n = type(text) == 'string' and string.sub(text, 1, 33) == v .. ' ' and string.match(text, '^%d+ (%d+) ', 34)
  return not n or tonumber(n) < tonumber(token)
end

-- part: restore
-- needs: beside recovery
-- SET. Return false if the server cannot write now; end the script if it has become a replica.
local function put(...)
  local set = redis.pcall('SET', ...)
  if set.err and string.find(set.err, 'READONLY', 1, true) then need_master() end
  return not set.err
end

-- Return true if the counter is raised: later grants get numbers above `last`, and above the time `us`, as a counter that is missing
-- would be, since other locks of the slot may have had greater numbers.
local function raise_counter(counter, last, us)
  local n = redis.pcall('GET', counter)
  local low = not n or (type(n) == 'string' and (tonumber(n) or 0) < tonumber(last))
  return not low or put(counter, string.format('%.0f', math.max(us, last)))
end

-- Return true if a break took the lock from the holder, or the holder released it, since the data were lost.
local function is_given_up(queue, value)
  return redis.pcall('GET', beside(queue, 'broken:') .. value) or redis.pcall('GET', beside(queue, 'given:') .. value)
end

-- part: recovery_meet
-- Begin the recovery time, if the data are of an unknown life: nothing is granted meanwhile. KEYS: the mark. ARGV: the life, `recovery`
-- in ms. Returns how many ms are left; 0 or less: none.
local life, mark = ARGV[1], redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local other = mark and string.match(mark, '^(%d+) ')
if other and other ~= ARGV[2] then return redis.error_reply('RECOVERY ' .. other) end
if mark and string.sub(mark, 1, #life) == life then
  local left = (tonumber(string.sub(mark, #life + 1)) or 0) - now
  if left <= tonumber(ARGV[2]) then return left end
end
redis.call('SET', KEYS[1], life .. string.format('%.0f', now + ARGV[2]))
return tonumber(ARGV[2])

-- part: recovery_settled
-- needs: recovery
-- In front of a script that grants, or answers who holds a lock: it has to wait until the recovery time is over.
do
  local left, refusal = recovery_left()
  if not left then return refusal end
  if left > 0 then return redis.error_reply('RECOVERING ' .. string.format('%.0f', left)) end
end

-- part: recovery_release
-- needs: beside recovery
-- In front of release.lua. During the recovery time, a lock is released and not handed on: a waiter may stand behind a holder of which
-- the server does not know. ARGV: as release.lua, and before the least number the token. Returns 2 as well: the lock was missing, and
-- no other client has got it since the data were lost.
do
  local left, refusal = recovery_left()
  if not left then return refusal end
  need_master()
  if left > 0 then
    local v, err = read(KEYS[1])
    if err then return err end
    if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end
    redis.pcall('SET', beside(KEYS[2], 'given:') .. ARGV[1], '1', 'PX', left)
    if v == ARGV[1] then
      redis.call('DEL', KEYS[1])
      if KEYS[4] then redis.pcall('DEL', KEYS[4]) end
      return 1
    end
    if redis.pcall('GET', beside(KEYS[2], 'broken:') .. ARGV[1]) then return -1 end
    return yields(v, beside(KEYS[2], 'info'), ARGV[4]) and 2 or 0
  end
end

-- part: recovery_shared_release
-- needs: beside recovery set leave extend
-- In front of shared_release.lua, as release.lua. ARGV: before the least number, the token and the marker of the holder's set.
do
  local left, refusal, now = recovery_left()
  if not left then return refusal end
  need_master()
  if left > 0 then
    local v, err = read(KEYS[1])
    if err then return err end
    local value = ARGV[1]
    if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end
    redis.pcall('SET', beside(KEYS[2], 'given:') .. value, '1', 'PX', left)
    local set = {now = now}
    set.kind, set.epoch = marker_of(v)
    set.name = set.kind and beside(KEYS[2], 'shared:') .. set.epoch
    if set.kind and redis.call('ZSCORE', set.name, value) then
      leave(set, value)
      if redis.call('ZCARD', set.name) == 0 then
        redis.call('DEL', KEYS[1])
        return 1
      end
      end_with_latest(set, KEYS[1])
      return 1
    end
    if redis.pcall('GET', beside(KEYS[2], 'broken:') .. value) then return -1 end
    return (v == ARGV[5] or yields(v, beside(KEYS[2], 'info'), ARGV[4])) and 2 or 0
  end
end

-- part: recovery_renew
-- needs: value beside recovery restore set extend guard
-- Instead of renew.lua. KEYS: locks, and behind each its queue and its counter. ARGV: for each its value, ttl in ms, token, the last number
-- of its grant, and its info; of a shared lock or a permit, the marker of its set and the slot, else '' and 0. Returns a string with 1
-- (extended) or 0 (not ours) for each; -: the server had no memory to write.
--
-- During the recovery time, a lock that is missing is set again, unless it was broken or released, and a holder that was in a set enters
-- it again under the set's marker. The counter is raised. And each lock has its info, by which a later holder is told from an earlier one.
local left, us, now = recovery_left()
if not left then return us end

local function renew_lock(lock, queue, counter, value, ttl, token, last, info)
  local v, err = read(lock)
  if err then return nil, err end
  local info_key = beside(queue, 'info')
  if left > 0 and v ~= value and yields(v, info_key, token) and not is_given_up(queue, value) then
    v = put(lock, value, 'PX', ttl) and value or '-'
  elseif v == value then
    redis.call('PEXPIRE', lock, ttl)
  end
  if v == value and left > 0 then
    if not raise_counter(counter, last, us) then v = '-' end
    if not put(info_key, info, 'PX', ttl) then v = '-' end
  elseif v == value then
    redis.pcall('PEXPIRE', info_key, ttl)
  end
  if v ~= value and v ~= '-' then need_master() end
  return v == value and '1' or v == '-' and '-' or '0'
end

local function renew_share(lock, queue, counter, value, ttl, token, info, marker, slot)
  local set = {now = now, kind = string.sub(marker, 1, 1), name = beside(queue, 'shared:') .. string.match(marker, '%d+')}
  local v, err = read(lock)
  if err then return nil, err end
  local ends = v == marker and redis.call('ZSCORE', set.name, value)
  local answer = ends and tonumber(ends) >= now and '1' or '0'
  if answer == '1' then write_first(set) end
  if left > 0 and answer == '0' and (v == marker or yields(v, beside(queue, 'info'), token)) and not is_given_up(queue, value) then
    answer = (v == marker or put(lock, marker, 'PX', ttl)) and '1' or '-'
    if answer == '1' and set.kind == 'P' then redis.call('ZADD', set.name .. ':slots', slot, value) end
  end
  if answer == '1' then
    redis.call('ZADD', set.name, now + ttl, value)
    if left > 0 then
      redis.call('HSET', set.name .. ':info', value, info)
      if not raise_counter(counter, token, us) then answer = '-' end
    end
    end_with_latest(set, lock)
  elseif answer == '0' then
    need_master()
  end
  return answer
end

local out = {}
for i = 1, #KEYS / 3 do
  local lock, queue, counter = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local value, ttl, token, last, info, marker, slot = unpack(ARGV, 7 * i - 6, 7 * i)
  local answer, refusal
  if marker == '' then
    answer, refusal = renew_lock(lock, queue, counter, value, ttl, token, last, info)
  else
    answer, refusal = guard(renew_share, lock, queue, counter, value, ttl, token, info, marker, slot)
  end
  if refusal then return refusal end
  out[i] = answer
end
return table.concat(out)
