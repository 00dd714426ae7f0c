-- Take the lock, or enqueue.
-- KEYS: lock, queue, counter, and where earlier releases count the lock's numbers: ours go on from there.
-- ARGV: value; ttl in ms; member of the queue, or ''; how long the queue is kept, in ms; how many numbers the grant wants (0: no
-- fencing); 1 to try first whether we could release the lock, or 0; 1 if the server may know the value, from the queue or by an attempt
-- of unknown outcome, or 0: then a mark of the value is about a grant that no client was notified of; the least number (take_numbers).
-- Returns the last of the numbers (1 without fencing) if the lock is ours, or {that, how many there are} if more than one were wanted.
-- Ours already means a lost reply, or a lock handed over: then the lease starts anew, with new numbers. Else returns {PTTL, the counter,
-- state}. State is 2^24 times the number of waiters, plus twice the member's place among them from 1 on (0: it has none), plus 1 if the
-- lock is left free for others for as many ms as the first number says (hand_over), plus 2^52 if the lock is a hash. {3, permits, 0,
-- 0}: the key is in use for permits. Error NOLOCK and a type: the key is an application's data.
local value, ttl, member = ARGV[1], ARGV[2], ARGV[3]
local may_be_known = ARGV[7] == '1'
-- needs: numbers wrong_type beside
if ARGV[6] == '1' then
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'table' and not is_wrong_type(v) then return v end
end
if may_be_known then redis.pcall('DEL', beside(KEYS[2], 'broken:') .. value) end
local set = redis.pcall('SET', KEYS[1], value, 'NX', 'PX', ttl)
local left
if set and not set.err and member ~= '' then
  local free = redis.pcall('ZSCORE', KEYS[2], 'free')
  if type(free) == 'string' then
    -- needs: time free
    left = left_free(free, time())
  end
  if left then
    redis.call('DEL', KEYS[1])
    set = false
  end
end
if not set or set.err then
  local v, state = redis.pcall('GET', KEYS[1]), left and 1 or 0
  if is_wrong_type(v) then
    -- needs: no_lock
    local refusal = no_lock()
    if refusal then return refusal end
    state = state + FREE_BASE
  end
  if v == value then
    redis.call('PEXPIRE', KEYS[1], ttl)
  elseif set then
    return set
  elseif type(v) == 'table' and not is_wrong_type(v) then
    return v
  elseif type(v) == 'string' and string.find(v, '^P%d+/%d+$') then
    if member ~= '' then redis.pcall('ZREM', KEYS[2], member) end
    return {3, tonumber(string.match(v, '%d+$')), 0, 0}
  else
    if member ~= '' then
      -- needs: enqueue doubt
      local there = redis.pcall('PEXPIRE', KEYS[2], ARGV[4])
      if type(there) == 'number' then enqueue(member, redis.pcall) end
      clear_doubt(KEYS[2], value, ttl)
      if there == 0 then redis.pcall('PEXPIRE', KEYS[2], ARGV[4]) end
      local rank, count = redis.pcall('ZRANK', KEYS[2], member), redis.pcall('ZCARD', KEYS[2])
      if type(rank) == 'number' and rank < 8388607 and type(count) == 'number' then
        state = state + 2 * (rank + 1) + 16777216 * count
      end
    end
    local last = redis.pcall('GET', KEYS[3])
    return {left or redis.call('PTTL', KEYS[1]), type(last) == 'string' and tonumber(last) or 0, state}
  end
end
if may_be_known and member ~= '' and redis.pcall('ZREM', KEYS[2], member) == 1 then
  -- needs: near
  notify_near(KEYS[1], KEYS[2], 2)
end
if ARGV[5] == '0' then return 1 end
-- needs: counter
local above, old = 0, redis.pcall('GET', KEYS[4])
if type(old) == 'string' and string.find(old, '^%d+$') and tonumber(old) < NUMBER_END then above = tonumber(old) end
local n, count = take_numbers(tonumber(ARGV[5]), above)
if type(n) ~= 'number' then
  if set then redis.call('DEL', KEYS[1]) end
  return n
end
return ARGV[5] == '1' and n or {n, count}
