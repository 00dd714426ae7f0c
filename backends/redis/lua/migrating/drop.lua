-- needs: ours
-- Delete the lock, if it has this value, as it was shown. KEYS: lock. ARGV: value.
local v, err = read_lock()
if err then return err end
if type(v) == 'string' and #v > 4096 then v = redis.sha1hex(v) end
return v == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
