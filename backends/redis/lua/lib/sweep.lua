-- Remove the holders whose leases are over, and count them and the others.
local function sweep(set)
  if not set.kind then return end
  local over = redis.call('ZRANGEBYSCORE', set.name, '-inf', '(' .. set.now, 'LIMIT', 0, 1000)
  if over[1] then
    redis.call('ZREM', set.name, unpack(over))
    redis.call('HDEL', set.name .. ':info', unpack(over))
    if set.kind == 'P' then redis.call('ZREM', set.name .. ':slots', unpack(over)) end
  end
  set.over, set.many = #over, redis.call('ZCARD', set.name)
end
