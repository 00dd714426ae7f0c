-- needs: numbers time value beside master named set
-- Return a page of the lock's holders, in the order in which their leases end. A renewal moves a holder ahead, so a reader of all pages
-- misses no holder. KEYS: lock, queue, counter.
-- ARGV: the token of the holder in question, and '=' and its owner ('': any); where the page begins: a lease's end, and the value whose
-- lease this is ('': the first page); the greatest token that counts ('': any).
-- Returns {marker, the holders, where the next page begins ('': this is the last), number of waiters, the first waiters, the counter};
-- of each holder its value, how many ms are left, and its info. {''} for a lock that is none of these. A page has only as many holders
-- as the server can compare in 2 ms.
local refusal = replica_error(KEYS[2])
if refusal then return refusal end
local v = get(KEYS[1])
local kind, epoch = marker_of(v)
if not kind then return {''} end
local _, now = time()
local set, out = beside(KEYS[2], 'shared:') .. epoch, {}
local token, owner, from, behind, newest = unpack(ARGV, 1, 5)
local page = 1000
if token ~= '' or owner ~= '' or newest ~= '' then page = 500 end
if from == '' then from = now end
local held, at, full
repeat
  held, at = redis.call('ZRANGEBYSCORE', set, from, '+inf', 'WITHSCORES', 'LIMIT', 0, page), 1
  for i = 1, #held, 2 do
    if held[i] == behind and held[i + 1] == from then at = i + 2 end
  end
  full, page = #held == 2 * page, 2 * page
until not full or at <= #held and (at > 1 or held[#held] ~= from)
for i = at, #held, 2 do
  local info = redis.pcall('HGET', set .. ':info', held[i])
  info = type(info) == 'string' and string.sub(info, 1, 384) or ''
  if is_named(info, token, owner, newest) then
    out[#out + 1], out[#out + 2], out[#out + 3] = string.sub(held[i], 1, 33), held[i + 1] - now, info
  end
end
local next_page = full and held[#held] .. ' ' .. held[#held - 1] or ''
local count = redis.pcall('ZCOUNT', KEYS[2], 0, FREE_BASE)
local queue = behind == '' and redis.pcall('ZRANGEBYSCORE', KEYS[2], 0, FREE_BASE, 'LIMIT', 0, 1000) or {}
for i, member in ipairs(queue) do queue[i] = string.sub(member, 1, 400) end
local last = redis.pcall('GET', KEYS[3])
return {v, out, next_page, type(count) == 'number' and count or 0, queue.err and {} or queue,
  type(last) == 'string' and string.sub(last, 1, 32) or ''}
