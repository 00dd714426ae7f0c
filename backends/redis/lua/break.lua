-- needs: beside master inspect
-- Take a lock away from its holder. KEYS: lock, queue, counter, info.
-- ARGV: the value that the lock is to be taken from, or the type of what is no string; 1 or 2 for which of the two it is, as inspect()
-- returns them; the least number (take_numbers). Returns what inspect() found before; nothing has changed if the value is another.
--
-- The holder is notified on its own channel, which its info names. A holder that has not written the info yet, because it does not know
-- of its grant, is notified on the channel that follows from the value (redis.c): behind the message of its grant, however late that is,
-- and with the counter, as the value may get the lock anew meanwhile.
--
-- The mark notifies a release whose first answer was lost that the lock was not its own any more. Such a release answers OK only until
-- the local deadline of its lease, which comes before the lease's end here, so the mark does not last longer. It is written before the
-- lock goes: in a migrating slot of a cluster it cannot be written here, and then nothing is broken. What changes nothing stands before
-- it: a script that has written may go on without memory. And a user without the right to delete, whom the reply of replica_error()
-- shows, is refused before the holder is notified.
local refusal, reply = replica_error(KEYS[2])
if refusal then return refusal end
local answer = inspect()
local value, ttl, info = answer[2], answer[3], answer[4]
if answer[1] == tonumber(ARGV[2]) and value == ARGV[1] then
  -- needs: notify hand_over
  if #value == 32 then
    if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) end
    if ttl > 0 and type(reply) == 'number' then reply = redis.pcall('SET', beside(KEYS[2], 'broken:') .. value, '1', 'PX', ttl) end
    if type(reply) == 'table' and reply.err then return reply end
  end
  local inst = string.sub(info, 1, #value + 1) == value .. ' ' and string.match(info, '^%d+ %d+ (%x+) ', #value + 2)
  local how = ' broken '
  if not inst and #value == 32 then
    inst = string.rep(string.sub(value, 1, 16), 2)
    how = ' taken ' .. (string.match(answer[7], '^%d+$') or 0) .. ' '
  end
  if inst then notify(inst, value .. how .. KEYS[1]) end
  redis.pcall('DEL', KEYS[4])
  hand_over(0)
end
return answer
