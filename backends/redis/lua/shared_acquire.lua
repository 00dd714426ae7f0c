-- needs: numbers time value beside set sweep
-- Share the lock, take a permit, or enqueue. No waiter is overtaken: those that came before enter first, or get the lock if it is free.
-- KEYS: lock, queue, counter, and where earlier releases count.
-- ARGV: the member of the queue, which says all that is wanted; 1 if it may stand in the queue, or 0; how long the queue is kept, in ms;
-- 1 if the server may know the value, or 0; the least number (take_numbers).
-- Returns {1, number, slot, epoch} if it holds the lock, also since before: then its lease starts anew. {2, ms, state, the counter} if
-- it has to wait: as acquire.lua does, also for a hash or an application's data; of permits, the ms are those until the first lease
-- ends. {3, permits, 0, 0} if one of our locks uses the key in another way. No value of ours is a UUID in hex (values.c), as that of a
-- foreign client often is.
local member, waits, may_be_known = ARGV[1], ARGV[2] == '1', ARGV[4] == '1'
local kind, inst, value, ttl, limit, owner = string.match(member, '^([SP])(%x+) (%x+) (%d+) (%d+) (.*)$')
local v, state = get(KEYS[1]), 0
if v == '?' and redis.pcall('GET', KEYS[1]) ~= '?' then
  -- needs: no_lock
  local refusal = no_lock()
  if refusal then return refusal end
  state = FREE_BASE
end
local us, now = time()
local set = set_of(v, KEYS[2], now)
sweep(set)
if set.kind and set.many == 0 then
  set.kind = false
  if set.over > 0 then
    redis.call('DEL', KEYS[1])
    v = false
  end
end
if set.kind and redis.call('ZSCORE', set.name, value) then
  -- needs: extend
  write_first(set)
  redis.call('ZADD', set.name, now + ttl, value)
  end_with_latest(set, KEYS[1])
  redis.call('ZREM', KEYS[2], member)
  local token, slot = string.match(redis.call('HGET', set.name .. ':info', value) or '', '^%d+ (%d+) (%d+) ')
  return {1, tonumber(token or 0), tonumber(slot or 0), tonumber(set.epoch)}
end
if may_be_known then redis.pcall('DEL', beside(KEYS[2], 'broken:') .. value) end
if waits and may_be_known then
  -- needs: doubt silent
  clear_doubt(KEYS[2], value, ttl)
  drop_silent(KEYS[1], KEYS[2], member, 100, now)
end
local kept = v == 'E' .. value
local is_ours = set.kind or v and #v == 32 and not string.find(v, '[^0-9a-f]') and string.find(v, '^[0-7]', 17)
if is_ours and (kind == 'P' or set.kind == 'P') and not (kind == set.kind and set.limit == limit) then
  redis.call('ZREM', KEYS[2], member)
  return {3, set.kind == 'P' and tonumber(set.limit) or 0, 0, 0}
end
local left = not v and waits and redis.call('ZSCORE', KEYS[2], 'free')
if left then
  -- needs: free
  left = left_free(left, us)
end
local first, first_is_other
local function read_queue()
  first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if first == 'free' then first = nil end
  first_is_other = first and first ~= member
end
read_queue()
if not v and not left and first_is_other then
  -- needs: enqueue hand_over
  if waits then enqueue(member, redis.call) end
  if hand_over(0) then return {2, -1, 0, 0} end
  read_queue()
end
-- needs: enter
if set.kind and first_is_other then
  -- needs: admit
  admit(set, member)
  read_queue()
end
local granted
if kept or not (left or first_is_other or v and not (set.kind and (kind == 'S' or set.many < tonumber(set.limit)))) then
  local n, slot = enter(set, kind, limit, inst, owner, value, ttl)
  granted = n
  if type(n) == 'number' then
    redis.call('ZREM', KEYS[2], member)
    granted = {1, n, slot, tonumber(set.epoch)}
    if first then
      -- needs: admit
      admit(set, member)
    end
  end
end
if set.grown then
  -- needs: extend
  end_with_latest(set, KEYS[1])
end
if granted then return granted end
if left then state = state + 1 end
if waits then
  -- needs: enqueue
  local there = redis.call('PEXPIRE', KEYS[2], ARGV[3])
  enqueue(member, redis.call)
  if there == 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
  local rank, all = redis.call('ZRANK', KEYS[2], member), redis.call('ZCARD', KEYS[2])
  if rank and rank < 8388607 then state = state + 2 * (rank + 1) + 16777216 * all end
else
  -- needs: master
  local refusal = replica_error(KEYS[2])
  if refusal then return refusal end
end
if set.kind == 'P' then left = redis.call('ZRANGE', set.name, 0, 0, 'WITHSCORES')[2] - now end
local last = redis.pcall('GET', KEYS[3])
return {2, left or redis.call('PTTL', KEYS[1]), state, type(last) == 'string' and tonumber(last) or 0}
