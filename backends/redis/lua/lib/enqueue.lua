-- needs: numbers time
-- Put `member` into the queue KEYS[2], behind all that wait there, unless it has a place. Its score is the time in us, or one more than
-- the last score, if the clock was set back since that waiter came. `call`: redis.call, or redis.pcall to ignore a missing right.
local function enqueue(member, call)
  local score, last = time(), 0
  local ends = call('ZRANGE', KEYS[2], -2, -1, 'WITHSCORES')
  for i = 1, #ends, 2 do
    if ends[i] ~= 'free' then last = tonumber(ends[i + 1]) end
  end
  if last >= score and last + 1 < FREE_BASE then score = last + 1 end
  call('ZADD', KEYS[2], 'NX', string.format('%.0f', score), member)
end
