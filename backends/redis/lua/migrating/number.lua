-- needs: numbers time
-- Take a number of the counter KEYS[1]. A number that is not above the server's time is raised to it: the counter may be new here.
local n, us = redis.pcall('INCR', KEYS[1]), (time())
if type(n) ~= 'number' then return n end
if n >= NUMBER_END then return redis.error_reply('ERR value is not an integer or out of range') end
if n <= us then
  n = us + 1
  redis.call('SET', KEYS[1], string.format('%.0f', n))
end
return n
