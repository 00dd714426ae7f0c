-- needs: numbers time counter near unreplicated reserve
-- Hand the lock on to the first waiter whose process still listens, and return true. If there is none, delete the lock and return
-- false. At most 100 waiters are looked at, because the server serves no other client meanwhile; behind more dead waiters than that,
-- the living find the lock when they poll.
--
-- The message has the last of the grant's numbers and how many there are; 0 if there is none: the waiter's next attempt says why.
--
-- `direct`: for how many us the lock has been handed on, by its holder's count. After DIRECT_US the lock is left free for FREE_US, so
-- that clients that know no queue and poll have a turn. The first waiter stays in the queue and is notified to ask. Behind all waiters
-- stands 'free' with the time at which this moment ends; it goes when the queue runs empty. `direct` of ASK_US: the lock is free
-- already and 'free' stands there; the first waiter is only notified to ask.
-- `first`, `since`: the first waiter and its score, if the caller has taken it from the queue already.
local function hand_over(direct, first, since)
  local us = direct >= DIRECT_US and time()
  if us and direct < ASK_US then
    redis.pcall('ZADD', KEYS[2], string.format('%.0f', FREE_BASE + us + FREE_US), 'free')
  end
  for gone = 1, 100 do
    if not first then first, since = unpack(redis.pcall('ZPOPMIN', KEYS[2])) end
    if not first then break end
    local inst, value, ttl, count = string.match(first, '^(%x+) (%x+) ([1-9]%d*) (%d+) ')
    if inst and #inst == 32 and #value == 32 then
      if not us and redis.pcall('SET', KEYS[1], value, 'PX', ttl).err then break end
      local n = 0
      count = tonumber(count)
      if not us and count > 0 then n, count = take_numbers(count, 0) end
      n = type(n) == 'number' and string.format('%.0f/%d', n, count) or '0/0'
      if notify_here(inst, value .. ' ' .. n .. ' ' .. (us and 0 or direct) .. ' ' .. KEYS[1]) then
        if not us then
          unreplicated(notify_near, KEYS[1], KEYS[2], math.max(3 - gone, 0))
          return true
        end
        redis.pcall('ZADD', KEYS[2], since, first)
        break
      end
    elseif string.find(first, '^[SP]%x') then
      local kept = reserve(first, since, us)
      if kept then return true end
      if kept == false then break end
    end
    first = nil
  end
  redis.call('DEL', KEYS[1])
  return false
end
