-- needs: beside counter
-- Let `value` hold the lock KEYS[1], as kind, limit (of permits), inst, owner and ttl say; begin a set if there is none. Return its
-- number and slot, or an error. The slot of a permit is the least that is free: the least number for which not all slots up to it are
-- taken. The caller sets the end of the marker (end_with_latest). A set that begins gets its end at once, and the script makes sure that
-- it may set ends before the set exists: a missing right ends the script at any line, and nothing may stay for ever.
local function enter(set, kind, limit, inst, owner, value, ttl)
  local n = take_numbers(1, 0)
  if type(n) ~= 'number' then return n end
  local token, slot, begins = string.format('%.0f', n), 0, not set.kind
  if begins then
    set.kind, set.epoch, set.limit, set.many = kind, token, limit, 0
    set.name = beside(KEYS[2], 'shared:') .. token
    redis.call('PEXPIREAT', set.name, set.now)
  end
  if set.kind == 'P' then
    local high = set.many
    while slot < high do
      local mid = math.floor((slot + high) / 2)
      if redis.call('ZCOUNT', set.name .. ':slots', 0, mid) > mid then slot = mid + 1 else high = mid end
    end
  end
  local told = string.gsub(owner, '^[23]', {['2'] = '0', ['3'] = '1'})
  redis.call('HSET', set.name .. ':info', value, set.now .. ' ' .. token .. ' ' .. slot .. ' ' .. inst .. ' ' .. told)
  if begins then redis.call('PEXPIREAT', set.name .. ':info', set.now + ttl) end
  redis.call('ZADD', set.name, set.now + ttl, value)
  if begins then redis.call('PEXPIREAT', set.name, set.now + ttl) end
  if set.kind == 'P' then redis.call('ZADD', set.name .. ':slots', slot, value) end
  if begins and set.kind == 'P' then redis.call('PEXPIREAT', set.name .. ':slots', set.now + ttl) end
  if begins then redis.call('SET', KEYS[1], kind .. token .. (kind == 'P' and '/' .. limit or ''), 'PX', ttl) end
  set.many, set.grown = set.many + 1, true
  return n, slot
end
