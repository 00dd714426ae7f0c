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
