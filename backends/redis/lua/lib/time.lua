-- Return the server's time in us and in ms.
local function time()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2], t[1] * 1000 + math.floor(t[2] / 1000)
end
