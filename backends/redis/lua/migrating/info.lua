-- Return the start of the info KEYS[1]; '' if there is none.
local v = redis.pcall('GET', KEYS[1])
return type(v) == 'string' and string.sub(v, 1, 512) or ''
