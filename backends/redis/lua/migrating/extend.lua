-- needs: ours
-- Extend a lease. KEYS: lock. ARGV: value, ttl in ms. Returns '1', or '0' if the lock is not ours.
local v, err = read_lock()
if err then return err end
if v ~= ARGV[1] then return '0' end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return '1'
