-- needs: beside recovery
-- SET. Return false if the server cannot write now; end the script if it has become a replica.
local function put(...)
  local set = redis.pcall('SET', ...)
  if set.err and string.find(set.err, 'READONLY', 1, true) then need_master() end
  return not set.err
end

-- Return true if the counter is raised: later grants get numbers above `last`, and above the time `us`, as a counter that is missing
-- would be, since other locks of the slot may have had greater numbers.
local function raise_counter(counter, last, us)
  local n = redis.pcall('GET', counter)
  local low = not n or (type(n) == 'string' and (tonumber(n) or 0) < tonumber(last))
  return not low or put(counter, string.format('%.0f', math.max(us, last)))
end

-- Return true if a break took the lock from the holder, or the holder released it, since the data were lost.
local function is_given_up(queue, value)
  return redis.pcall('GET', beside(queue, 'broken:') .. value) or redis.pcall('GET', beside(queue, 'given:') .. value)
end
