-- needs: time doubt silent
-- Report to waiters how their locks stand, and remove dead waiters from the head of each queue.
-- KEYS: locks, and behind each its queue. ARGV: how long the queues are kept, in ms; the member of each waiter that asks; in a cluster
-- the tag of the slot. Of the first three of a queue, those leave whose process does not listen any more, or is silent: 100 in all,
-- because the server serves no other client meanwhile. Returns three numbers for each: PTTL, how many stand before the member (-1: it
-- has no place), how many stand in the queue. The first write is a call, so that a server that has become a replica refuses the script.
local out, most = {}, 100
local _, now = time()
for i = 1, #KEYS / 2 do
  local lock, queue, member = KEYS[2 * i - 1], KEYS[2 * i], ARGV[1 + i]
  redis.call('PEXPIRE', queue, ARGV[1])
  local value, ttl = string.match(member, '^%S+ (%x+) (%d+) ')
  if value then clear_doubt(queue, value, ttl) end
  most = most - drop_silent(lock, queue, member, most, now)
  local rank, count = redis.pcall('ZRANK', queue, member), redis.pcall('ZCARD', queue)
  out[3 * i - 2], out[3 * i - 1], out[3 * i] = redis.call('PTTL', lock),
    type(rank) == 'number' and rank or -1, type(count) == 'number' and count or 0
end
return out
