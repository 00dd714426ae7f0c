-- needs: numbers
-- Take the first waiter from the queue, and return it and its score. If there is none, delete the lock, and return nil. `direct`: as of
-- hand_over(). If the lock is to be left free, which hand_over() does, return false.
local function take_first(direct)
  if direct >= DIRECT_US then return false end
  local first, since = unpack(redis.pcall('ZPOPMIN', KEYS[2]))
  if not first then redis.call('DEL', KEYS[1]) end
  return first, since
end
