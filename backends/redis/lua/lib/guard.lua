-- Call a function that extends a lease, and return its answer. If it fails because a key has another type than it should have, the answer
-- is 0: the lock is not ours any more, which is no reason to lose the others. Return nil and an error if this is the answer to all.
-- Servers before 7 put the script's line before an error.
local function guard(extend, ...)
  local done, answer, refusal = pcall(extend, ...)
  if done then return answer, refusal end
  local text = type(answer) == 'table' and answer.err or answer
  if string.find(text, '^-?WRONGTYPE ') or string.find(text, ': %-WRONGTYPE ') then return '0' end
  return nil, redis.error_reply(text)
end
