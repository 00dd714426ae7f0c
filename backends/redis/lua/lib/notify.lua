-- Send a text to a process, on the channel of its instance. Return how many connections received it, or an error.
local function notify(inst, text)
  return redis.pcall('PUBLISH', 'locker:wake:' .. inst, text)
end

-- Return how many connections listen on an instance's channel; nil if the user may not ask.
local function listeners(inst)
  return redis.pcall('PUBSUB', 'NUMSUB', 'locker:wake:' .. inst)[2]
end
