-- migrating.lua: scripts for a holder's lock in a cluster's slot that is half migrated (embed.cmake).

-- part: migrating_extend
-- needs: read
-- Extend a lease. KEYS: lock. ARGV: value, ttl in ms. Returns '1', or '0' if the lock is not ours.
local v, err = read(KEYS[1])
if err then return err end
if v ~= ARGV[1] then return '0' end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return '1'

-- part: migrating_drop
-- needs: read
-- Delete the lock, if it is ours. KEYS: lock. ARGV: value. Returns how many locks were deleted.
local v, err = read(KEYS[1])
if err then return err end
return v == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
