-- needs: notify
-- Notify the waiters at the places `first` to 2 of the queue that they are near its head: only the first three poll often (wait.lua).
local function notify_near(lock, queue, first)
  for _, member in ipairs(redis.pcall('ZRANGE', queue, first, 2)) do
    local inst, value = string.match(member, '^[SP]?(%x+) (%x+) ')
    if inst then notify(inst, value .. ' near ' .. lock) end
  end
end
