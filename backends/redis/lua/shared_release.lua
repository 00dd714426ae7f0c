-- needs: numbers time value beside set sweep
-- Release a shared lock or a permit, and let waiters enter. KEYS: lock, queue, counter.
-- ARGV: value; member of the queue, or ''; for how many us the lock has been handed on; the least number (take_numbers).
-- Returns what release.lua does; 1: the holder's place is free, and the waiters that can enter have entered. A member that leaves the
-- queue may have stood before waiters that can enter.
local value, member, answer, direct = ARGV[1], ARGV[2], 0, tonumber(ARGV[3])
local gone = member ~= '' and redis.pcall('ZREM', KEYS[2], member)
local v = get(KEYS[1])
local _, now = time()
local set = set_of(v, KEYS[2], now)
sweep(set)
if set.kind and redis.call('ZSCORE', set.name, value) then
  -- needs: leave
  leave(set, value)
  answer, set.many = 1, set.many - 1
elseif type(redis.pcall('GET', beside(KEYS[2], 'broken:') .. value)) == 'string' then
  answer = -1
end
if set.kind and set.many > 0 then
  -- needs: extend admit
  admit(set, member)
  end_with_latest(set, KEYS[1])
else
  if not v and gone == 1 and type(redis.pcall('ZSCORE', KEYS[2], 'free')) == 'string' then
    direct = ASK_US
  elseif not (set.kind and (answer == 1 or set.over > 0) or v == 'E' .. value) then
    direct = nil
  end
  if direct then
    -- needs: first
    local first, since = take_first(direct)
    if first ~= nil then
      -- needs: hand_over
      if hand_over(direct, first, since) then return answer end
    end
  end
end
if answer == 1 then return 1 end
-- needs: master
return replica_error(KEYS[2]) or answer
