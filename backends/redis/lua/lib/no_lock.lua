-- KEYS[1] holds no string. Return an error if its type is not a hash: a hash may be Redisson's lock, and any other type is an
-- application's data. Else return nil, and the type unless the user may not run TYPE.
local function no_lock()
  local sort = redis.pcall('TYPE', KEYS[1]).ok
  if sort and sort ~= 'hash' then return redis.error_reply('NOLOCK ' .. sort) end
  return nil, sort
end
