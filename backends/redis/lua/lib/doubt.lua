-- needs: time beside
-- The waiter `value`, whose TTL is `ttl` ms, is alive: clear the doubt about it (silent.lua). For half a spell no other waiter doubts it
-- again. Otherwise two waiters that are notified of a doubt, and doubt each other by what they do then, would go on for ever.
local function clear_doubt(queue, value, ttl)
  local _, now = time()
  redis.pcall('SET', beside(queue, 'doubt:') .. value, '0 ' .. now, 'XX', 'PX', math.ceil(math.max(ttl / 3, 300)))
end
