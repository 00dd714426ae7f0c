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
