-- needs: numbers time
-- The counter of a slot's fencing numbers is KEYS[3]. The last argument says what its numbers have to be above (fence.h).
local least = tonumber(ARGV[#ARGV])

-- Take `count` numbers. Return the last of them and how many were taken, or the error of a counter that cannot count. More than one are
-- taken only if the counter then stays behind the server's time: all locks of a slot share the counter, and numbers that are given out
-- faster than time passes could be given out again after a loss of data. `above`: what other counters have reached; 0: no others.
local function take_numbers(count, above)
  local floor = math.max(least, above)
  if count > 1 then
    local us = time()
    local last = redis.pcall('GET', KEYS[3])
    last = type(last) == 'string' and tonumber(last) or 0
    if last < floor or last + count > us then count = 1 end
  end
  local n = redis.pcall('INCRBY', KEYS[3], count)
  if type(n) ~= 'number' then return n, count end
  if n >= NUMBER_END then
    return redis.error_reply('ERR value is not an integer or out of range'), count
  end
  if n - count < floor then
    n = math.max(n, time() + count, above + count)
    local set = redis.pcall('SET', KEYS[3], string.format('%.0f', n))
    if set.err then return set, count end
  end
  return n, count
end
