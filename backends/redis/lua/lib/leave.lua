-- Remove a holder.
local function leave(set, value)
  redis.call('ZREM', set.name, value)
  redis.call('HDEL', set.name .. ':info', value)
  if set.kind == 'P' then redis.call('ZREM', set.name .. ':slots', value) end
end
