-- needs: beside
-- For a script that answers about a lock and may have written nothing: delete a key that never exists, beside the queue. Return the
-- error if this server has become a replica: its data may be old, and its clock may be ahead, so it would report a lock as expired
-- that the new master keeps. Else return nil and the reply; other errors of this write say nothing about the lock.
local function replica_error(queue)
  local reply = redis.pcall('DEL', beside(queue, 'shared:'))
  if type(reply) == 'table' and string.find(reply.err, 'READONLY', 1, true) then return reply end
  return nil, reply
end
