-- needs: time value beside master notify set sweep extend leave
-- Take the lock away from some of its holders. KEYS: lock, queue, counter.
-- ARGV: the marker that the caller saw; the values of those holders, one behind the other; the least number (take_numbers).
-- Returns the values of the holders that lost the lock, in that order; none if the marker is another by now. Each holder's mark is as
-- break.lua leaves it. Each right that the user may lack is tried with a command that changes nothing, before the first is notified.
local refusal = replica_error(KEYS[2])
if refusal then return refusal end
local v, answer = get(KEYS[1]), {}
if v ~= ARGV[1] then return answer end
local _, now = time()
local set = set_of(v, KEYS[2], now)
sweep(set)
local before = set.many
if set.many > 0 and ARGV[2] ~= '' then
  write_first(set)
  redis.call('HDEL', set.name .. ':info', '')
  redis.call('DEL', beside(KEYS[2], 'shared:'))
  end_with_latest(set, KEYS[1])
end
for at = 1, #ARGV[2], 32 do
  local value = string.sub(ARGV[2], at, at + 31)
  local ends, info = redis.call('ZSCORE', set.name, value), redis.call('HGET', set.name .. ':info', value)
  if ends then
    write_first(set)
    local mark = redis.pcall('SET', beside(KEYS[2], 'broken:') .. value, '1', 'PX', math.max(ends - now, 1))
    if mark.err then return mark end
    local token, inst = string.match(info or '', '^%d+ (%d+) %d+ (%x+) ')
    if inst then notify(inst, value .. ' taken ' .. (token or '0') .. ' ' .. KEYS[1]) end
    leave(set, value)
    set.many = set.many - 1
    answer[#answer + 1] = value
  end
end
if set.many > 0 then
  -- needs: admit
  admit(set)
  end_with_latest(set, KEYS[1])
elseif before > 0 or set.over > 0 then
  -- needs: hand_over
  hand_over(0)
end
return answer
