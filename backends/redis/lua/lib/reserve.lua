-- needs: unreplicated
-- No client holds the lock, and `first` wants to share it or take a permit. Keep the lock for it as E<value>, for as long as it would
-- have had it, and notify it: it has to ask. With `is_free`, the lock stays free for a moment, and `first`, back at its place `since`,
-- is asked to come then. Return true if the lock is kept; false if it stays free; nil if `first` does not listen.
local function reserve(first, since, is_free)
  local inst, value, ttl = string.match(first, '^[SP](%x+) (%x+) ([1-9]%d*) ')
  if not inst or not notify_here(inst, value .. ' enter ' .. KEYS[1]) then return nil end
  if is_free then
    redis.pcall('ZADD', KEYS[2], since, first)
    return false
  end
  return not redis.pcall('SET', KEYS[1], 'E' .. value, 'PX', ttl).err or nil
end
