-- needs: wrong_type
-- Return the lock's value: false if there is none, '?' if it is no string. Other errors end the script.
local function get(lock)
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'table' then return v end
  if is_wrong_type(v) then return '?' end
  return redis.call('GET', lock)
end
