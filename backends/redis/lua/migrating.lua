-- migrating.lua: functions and scripts for a lock in a cluster's slot that is being migrated (embed.cmake).

-- part: ours
-- needs: wrong_type
-- Return the value of the lock KEYS[1], false if there is none, and a table if it has another type. Return nil and an error if it
-- cannot be read.
local function read_lock()
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'table' and not is_wrong_type(v) then return nil, v end
  return v
end

-- part: migrating_extend
-- needs: ours
-- Extend a lease. KEYS: lock. ARGV: value, ttl in ms. Returns '1', or '0' if the lock is not ours.
local v, err = read_lock()
if err then return err end
if v ~= ARGV[1] then return '0' end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return '1'

-- part: migrating_drop
-- needs: ours
-- Delete the lock, if it has this value, as it was shown. KEYS: lock. ARGV: value.
local v, err = read_lock()
if err then return err end
if type(v) == 'string' and #v > 4096 then v = redis.sha1hex(v) end
return v == ARGV[1] and redis.call('DEL', KEYS[1]) or 0

-- part: migrating_drop_hash
-- Delete the lock, if it is a hash. KEYS: lock.
return redis.pcall('TYPE', KEYS[1]).ok == 'hash' and redis.call('DEL', KEYS[1]) or 0

-- part: migrating_take
-- needs: numbers no_lock ours
-- Take the lock in a slot that is being migrated. KEYS: lock. ARGV: value, ttl in ms. Returns 1, or {PTTL, 0, state} as acquire.lua does.
local set = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if set and not set.err then return 1 end
local v, err = read_lock()
if err then return err end
if v == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if set then return set end
if type(v) ~= 'table' then return {redis.call('PTTL', KEYS[1]), 0, 0} end
local refusal, sort = no_lock()
return refusal or {redis.call('PTTL', KEYS[1]), 0, sort and FREE_BASE or 0}

-- part: migrating_number
-- needs: numbers time
-- Take a number of the counter KEYS[1]. A number that is not above the server's time is raised to it: the counter may be new here.
local n, us = redis.pcall('INCR', KEYS[1]), (time())
if type(n) ~= 'number' then return n end
if n >= NUMBER_END then return redis.error_reply('ERR value is not an integer or out of range') end
if n <= us then
  n = us + 1
  redis.call('SET', KEYS[1], string.format('%.0f', n))
end
return n

-- part: migrating_lock
-- needs: ours
-- Return {held, value, PTTL} of the lock KEYS[1], as inspect() does.
local v, err = read_lock()
if err then return err end
local held = v and 1 or 0
if type(v) == 'table' then held, v = 2, redis.pcall('TYPE', KEYS[1]).ok or '' end
if v and #v > 4096 then v = redis.sha1hex(v) end
return {held, v or '', redis.call('PTTL', KEYS[1])}

-- part: migrating_queue
-- needs: numbers
-- Return {number of waiters, the first waiters, ''} of the queue KEYS[1], as inspect() does.
local count = redis.pcall('ZCOUNT', KEYS[1], 0, FREE_BASE)
local queue = redis.pcall('ZRANGEBYSCORE', KEYS[1], 0, FREE_BASE, 'LIMIT', 0, 1000)
for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 512) end
return {type(count) == 'number' and count or 0, queue.err and {} or queue, ''}

-- part: migrating_info
-- Return the start of the info KEYS[1]; '' if there is none.
local v = redis.pcall('GET', KEYS[1])
return type(v) == 'string' and string.sub(v, 1, 512) or ''
