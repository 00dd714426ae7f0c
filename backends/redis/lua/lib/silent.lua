-- needs: beside notify near
-- A process may have died, or its host may be cut off, while its connection is still open: for minutes the server does not notice. So a
-- waiter that polls doubts each of the other first three waiters that can clear a doubt (claim.h), and notifies it. A living waiter
-- polls, or asks for the lock, at once, which clears the doubt (doubt.lua).
--
-- The first poll makes the doubt 1. Each later poll adds the half spells that have passed since, but two at most. A spell is a third of
-- the waiter's TTL, and 0.3 s at least. At 5 the waiter leaves the queue: after two spells and three polls at least. A stall of the
-- server, after which all polls come together, or a step of its clock counts for one spell at most, so it removes no waiter. A waiter
-- that lives and was only late finds that it has no place, and takes the last. A lock that a message has granted is never taken back.
-- No waiter is notified of a doubt that cannot be kept, as when the user has no right to this key: each poll would notify it anew, and
-- the notified waiters would go on for ever.
local listens_at = {}
local function listens(inst)
  if listens_at[inst] == nil then
    local count = listeners(inst)
    listens_at[inst] = count == nil or tonumber(count) > 0
  end
  return listens_at[inst]
end

-- Doubt the waiter `member` at the time `now` in ms. Return true if it has been silent for too long.
local function is_silent(lock, queue, member, now)
  local kind, inst, value, ttl, rest = string.match(member, '^([SP]?)(%x+) (%x+) ([1-9]%d*) (.*)$')
  local can_clear = kind == '' and '^0%d+ ' or '^%d+ [23] '
  if not kind or #value ~= 32 or not string.find(rest, can_clear) then return false end
  local doubt, spell = beside(queue, 'doubt:') .. value, math.max(ttl / 3, 300)
  local old = redis.pcall('GET', doubt) or '0 0'
  local count, last = string.match(type(old) == 'string' and old or '', '^(%d) (%d+)$')
  local halves = count and math.floor(2 * math.abs(now - last) / spell) or 0
  if halves < 1 then return false end
  local is_notified = count ~= '0'
  if not is_notified then halves = 1 end
  count = count + math.min(halves, 2)
  local kept = redis.pcall('SET', doubt, count .. ' ' .. now, 'PX', math.ceil(math.max(2 * spell, 2500)))
  if kept.err then return false end
  if not is_notified then notify(inst, value .. (kind == '' and ' look ' or ' enter ') .. lock) end
  return count >= 5
end

-- Remove from the first three of the queue the waiters whose process does not listen any more or is silent, but not `member`, and no
-- more than `most`. Notify the waiters that come to stand among the first three. Return how many were removed.
local function drop_silent(lock, queue, member, most, now)
  local gone, dead = 0
  repeat
    dead = false
    for _, other in ipairs(redis.pcall('ZRANGE', queue, 0, 2)) do
      local inst = string.match(other, '^[SP]?(%x+) ')
      if inst and other ~= member and gone < most and (not listens(inst) or is_silent(lock, queue, other, now)) then
        redis.pcall('ZREM', queue, other)
        dead, gone = true, gone + 1
      end
    end
  until not dead or gone >= most
  if gone > 0 then notify_near(lock, queue, math.max(3 - gone, 0)) end
  return gone
end
