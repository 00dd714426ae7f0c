-- Write the info of a grant, if the lock still has its value. The info ends with the lease. KEYS: lock, info. ARGV: value, info.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('SET', KEYS[2], ARGV[2], 'PX', left) end
end
