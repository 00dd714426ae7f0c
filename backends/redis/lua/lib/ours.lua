-- needs: wrong_type
-- Return the value of the lock KEYS[1], false if there is none, and a table if it has another type. Return nil and an error if it
-- cannot be read.
local function read_lock()
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'table' and not is_wrong_type(v) then return nil, v end
  return v
end
