-- show.lua: what a lock is, and writing its info (embed.cmake).

-- part: inspect
-- needs: numbers value
-- Return {held, value, PTTL, info, number of waiters, the first waiters, the counter}. `held` is 0 for no lock, 1 for a string, and 2
-- for another type, whose name is then the value ('' if the user may not run TYPE). For a long string, which is no holder's name, the
-- value is its digest. The other texts are cut to the length that ours can have, because any client may write there, and net/socket.h
-- allows 1 MB for the whole answer.
local function inspect()
  local v, held = get(KEYS[1]), 1
  if v == '?' then
    local sort = redis.pcall('TYPE', KEYS[1]).ok or ''
    if sort ~= 'string' then held, v = 2, sort end
  end
  if v and #v > 4096 then v = redis.sha1hex(v) end
  local info = redis.pcall('GET', KEYS[4])
  local count = redis.pcall('ZCOUNT', KEYS[2], 0, FREE_BASE)
  local queue = redis.pcall('ZRANGEBYSCORE', KEYS[2], 0, FREE_BASE, 'LIMIT', 0, 1000)
  local last = redis.pcall('GET', KEYS[3])
  for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 512) end
  return {v and held or 0, v or '', redis.call('PTTL', KEYS[1]),
    type(info) == 'string' and string.sub(info, 1, 512) or '', type(count) == 'number' and count or 0,
    queue.err and {} or queue, type(last) == 'string' and string.sub(last, 1, 32) or ''}
end

-- part: show
-- needs: master inspect
-- Return what inspect() does. KEYS: lock, queue, counter, info.
return replica_error(KEYS[2]) or inspect()

-- part: note
-- Write the info of a grant, if the lock still has its value. The info ends with the lease. KEYS: lock, info. ARGV: value, info.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('SET', KEYS[2], ARGV[2], 'PX', left) end
end
