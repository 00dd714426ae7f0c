-- needs: notify
-- Call a function whose writes and messages the replicas do not get. A replica that was the master before may still have a listener,
-- which would take a lock that is then handed to another waiter. (A server without set_repl replicates them.)
local function unreplicated(call, ...)
  pcall(redis.set_repl, redis.REPL_NONE)
  local result = call(...)
  pcall(redis.set_repl, redis.REPL_ALL)
  return result
end

-- Notify a process at this server alone. Return true if the process received the text.
local function notify_here(inst, text)
  local received = unreplicated(notify, inst, text)
  return type(received) == 'number' and received > 0
end
