-- Release the lock, and hand it on to the first waiter.
-- KEYS: lock, queue, counter, and the info if the server has it.
-- ARGV: value; member of the queue, or ''; for how many us the lock has been handed on; the least number (take_numbers).
-- Returns 1: the lock was ours, and is the next waiter's or free. 0: it was not ours, and nothing has changed. -1: likewise, and a break
-- took it away. A member that goes while the lock is left free may be the waiter that was notified to ask; no other waiter would take
-- the lock before it polls, so the next waiter is notified. So is a waiter that the member kept from sharing the lock with its holders.
-- needs: numbers
local gone = ARGV[2] ~= '' and redis.pcall('ZREM', KEYS[2], ARGV[2])
local v, answer, direct = redis.pcall('GET', KEYS[1]), 1, tonumber(ARGV[3])
if gone == 1 then
  -- needs: near
  notify_near(KEYS[1], KEYS[2], 2)
end
if not v and gone == 1 and type(redis.pcall('ZSCORE', KEYS[2], 'free')) == 'string' then
  answer, direct = 0, ASK_US
elseif v ~= ARGV[1] then
  -- needs: wrong_type beside master notify
  if type(v) == 'table' and not is_wrong_type(v) then return v end
  if gone == 1 and type(v) == 'string' and string.find(v, '^[SP]%d') then
    local first = redis.pcall('ZRANGE', KEYS[2], 0, 0)[1]
    local inst, value = string.match(first or '', '^[SP](%x+) (%x+) ')
    if inst then notify(inst, value .. ' enter ' .. KEYS[1]) end
  end
  v = redis.pcall('GET', beside(KEYS[2], 'broken:') .. ARGV[1])
  return replica_error(KEYS[2]) or v and (type(v) == 'table' and v or -1) or 0
end
if KEYS[4] then redis.pcall('DEL', KEYS[4]) end
-- needs: first
local first, since = take_first(direct)
if first == nil then return answer end
-- needs: hand_over
hand_over(direct, first, since)
return answer
