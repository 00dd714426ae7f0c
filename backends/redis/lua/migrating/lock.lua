-- needs: ours
-- Return {held, value, PTTL} of the lock KEYS[1], as inspect() does.
local v, err = read_lock()
if err then return err end
local held = v and 1 or 0
if type(v) == 'table' then held, v = 2, redis.pcall('TYPE', KEYS[1]).ok or '' end
if v and #v > 4096 then v = redis.sha1hex(v) end
return {held, v or '', redis.call('PTTL', KEYS[1])}
