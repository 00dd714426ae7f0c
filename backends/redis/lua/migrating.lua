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
