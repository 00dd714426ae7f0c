-- needs: unreplicated enter
-- Let the waiters at the head of the queue enter, as far as they can beside the holders. Each is notified, and asks what it got. A
-- waiter that does not listen any more leaves the queue, whatever it wants. `member`, if given, stays in the queue. At most 100 waiters
-- are looked at.
local function admit(set, member)
  for _ = 1, 100 do
    local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not first or first == member or first == 'free' then break end
    local kind, inst, value, ttl, limit, owner = string.match(first, '^([SP]?)(%x+) (%x+) ([1-9]%d*) (%d+) (.*)$')
    if not kind or #inst ~= 32 or #value ~= 32 then
      redis.call('ZREM', KEYS[2], first)
    elseif kind == set.kind and (kind == 'S' or limit == set.limit and set.many < tonumber(set.limit)) then
      local received = notify_here(inst, value .. ' enter ' .. KEYS[1])
      redis.call('ZREM', KEYS[2], first)
      if received and type(enter(set, kind, limit, inst, owner, value, ttl)) ~= 'number' then break end
    else
      local count = listeners(inst)
      if count == nil or tonumber(count) > 0 then break end
      redis.call('ZREM', KEYS[2], first)
    end
  end
end
