-- In a cluster, each slot has its own channels. A listener at a replica receives the messages too, and this replica may have been the
-- master before. So a message counts, and is sent, only if a connection listens at this server.
-- wait.lua has the slot's tag as its last argument. The other scripts have a counter, which ends in the tag.
local tag = string.match(ARGV[#ARGV], '^{%d+}$') or string.match(KEYS[3], '{%d+}$')

-- Return how many connections listen on an instance's channel; nil if the user may not ask.
local function listeners(inst)
  return redis.pcall('PUBSUB', 'SHARDNUMSUB', 'locker:wake:' .. inst .. tag)[2]
end

-- Send a text to a process, on the channel of its instance. Return how many connections received it, or an error.
local function notify(inst, text)
  local n = listeners(inst)
  return n and n > 0 and redis.pcall('SPUBLISH', 'locker:wake:' .. inst .. tag, text) or 0
end
