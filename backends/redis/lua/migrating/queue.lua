-- needs: numbers
-- Return {number of waiters, the first waiters, ''} of the queue KEYS[1], as inspect() does.
local count = redis.pcall('ZCOUNT', KEYS[1], 0, FREE_BASE)
local queue = redis.pcall('ZRANGEBYSCORE', KEYS[1], 0, FREE_BASE, 'LIMIT', 0, 1000)
for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 512) end
return {type(count) == 'number' and count or 0, queue.err and {} or queue, ''}
