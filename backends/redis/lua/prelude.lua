-- prelude.lua: functions of several scripts, each part with the functions that belong together (embed.cmake).

-- part: numbers
-- Numbers that several scripts use (embed.cmake puts them in place of their names). Those that reach the server stay below 2^53, so
-- Lua's doubles hold them exactly. But tostring() does not print them exactly, so the scripts format them with %.0f.

-- 2^52: above every time in us at which a waiter can have come. It marks two things. In a queue, a score above it belongs to the entry
-- 'free'. In the state that acquire.lua answers, it means that the lock is a hash.
local FREE_BASE = 4503599627370496
local NUMBER_END = 9007199254740992 -- 2^53: fencing numbers stay below it
-- A lock is handed on for DIRECT_US without being free in between. Then it is left free for FREE_US: more than the 5 ms after which
-- many clients poll. ASK_US stands for a lock that is free already: no lock is handed on for 30 years.
local DIRECT_US = 400000
local FREE_US = 8000
local ASK_US = 1e15

-- part: time
-- Return the server's time in us and in ms.
local function time()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2], t[1] * 1000 + math.floor(t[2] / 1000)
end

-- part: wrong_type
-- Return true if the reply is the error of a key that has another type.
local function is_wrong_type(reply)
  return type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) ~= nil
end

-- part: value
-- Return the lock's value: false if there is none, '?' if it is no string. Other errors end the script.
local function get(lock)
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'table' then return v end
  -- needs: wrong_type
  if is_wrong_type(v) then return '?' end
  return redis.call('GET', lock)
end

-- part: read
-- needs: wrong_type
-- Return the value of a lock: '?' if it is no string. Return nil and an error if it cannot be read.
local function read(lock)
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'table' then return v end
  if is_wrong_type(v) then return '?' end
  return nil, v
end

-- part: beside
-- Return the name of a key beside a queue: the queue's name ends in 'queue', and the other names have another word in its place. They
-- are info (of a grant), broken:VALUE (the mark that break leaves of a lock that it took away), given:VALUE (the mark of a release during
-- the recovery time), doubt:VALUE (whether a waiter is alive), and shared:EPOCH (a set of holders). 'shared:' alone never exists: no
-- lock has this name (keys.c), and each set has its epoch behind it.
local function beside(queue, what)
  return string.sub(queue, 1, -6) .. what
end

-- part: master
-- needs: beside
-- For a script that answers about a lock and may have written nothing: delete a key that never exists, beside the queue. Return the
-- error if this server has become a replica: its data may be old, and its clock may be ahead, so it would report a lock as expired
-- that the new master keeps. Else return nil and the reply; other errors of this write say nothing about the lock.
local function replica_error(queue)
  local reply = redis.pcall('DEL', beside(queue, 'shared:'))
  if type(reply) == 'table' and string.find(reply.err, 'READONLY', 1, true) then return reply end
  return nil, reply
end

-- part: no_lock
-- KEYS[1] holds no string. Return an error if its type is not a hash: a hash may be Redisson's lock, and any other type is an
-- application's data. Else return nil, and the type unless the user may not run TYPE.
local function no_lock()
  local sort = redis.pcall('TYPE', KEYS[1]).ok
  if sort and sort ~= 'hash' then return redis.error_reply('NOLOCK ' .. sort) end
  return nil, sort
end

-- part: notify
-- Send a text to a process, on the channel of its instance. Return how many connections received it, or an error.
local function notify(inst, text)
  return redis.pcall('PUBLISH', 'locker:wake:' .. inst, text)
end

-- Return how many connections listen on an instance's channel; nil if the user may not ask.
local function listeners(inst)
  return redis.pcall('PUBSUB', 'NUMSUB', 'locker:wake:' .. inst)[2]
end

-- part: notify_cluster
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

-- part: unreplicated
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

-- part: near
-- needs: notify
-- Notify the waiters at the places `first` to 2 of the queue that they are near its head: only the first three poll often (wait.lua).
local function notify_near(lock, queue, first)
  for _, member in ipairs(redis.pcall('ZRANGE', queue, first, 2)) do
    local inst, value = string.match(member, '^[SP]?(%x+) (%x+) ')
    if inst then notify(inst, value .. ' near ' .. lock) end
  end
end

-- part: counter
-- needs: numbers time
-- The counter of a slot's fencing numbers is KEYS[3]. The last argument says what its numbers have to be above (clock.c).
local least = tonumber(ARGV[#ARGV])

-- Take `count` numbers. Return the last of them and how many were taken, or the error of a counter that cannot count. More than one are
-- taken only if the counter then stays behind the server's time: all locks of a slot share the counter, and numbers that are given out
-- faster than time passes could be given out again after a loss of data. `above`: what other counters have reached; 0: no others.
local function take_numbers(count, above)
  local floor = math.max(least, above)
  if count > 1 then
    local us = time()
    local last = redis.pcall('GET', KEYS[3])
    last = type(last) == 'string' and tonumber(last) or 0
    if last < floor or last + count > us then count = 1 end
  end
  local n = redis.pcall('INCRBY', KEYS[3], count)
  if type(n) ~= 'number' then return n, count end
  if n >= NUMBER_END then
    return redis.error_reply('ERR value is not an integer or out of range'), count
  end
  if n - count < floor then
    n = math.max(n, time() + count, above + count)
    local set = redis.pcall('SET', KEYS[3], string.format('%.0f', n))
    if set.err then return set, count end
  end
  return n, count
end

-- part: enqueue
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

-- part: free
-- needs: numbers
-- Return for how many ms the lock is still left free for clients that know no queue (hand_over), given the score of 'free' in the
-- queue and the time in us; false: it is not.
local function left_free(score, us)
  local left = score - FREE_BASE - us
  return left > 0 and left <= FREE_US and math.ceil(left / 1000)
end

-- part: doubt
-- needs: time beside
-- The waiter `value`, whose TTL is `ttl` ms, is alive: clear the doubt about it (is_silent). For half a spell no other waiter doubts it
-- again. Otherwise two waiters that are notified of a doubt, and doubt each other by what they do then, would go on for ever.
local function clear_doubt(queue, value, ttl)
  local _, now = time()
  redis.pcall('SET', beside(queue, 'doubt:') .. value, '0 ' .. now, 'XX', 'PX', math.ceil(math.max(ttl / 3, 300)))
end

-- part: silent
-- needs: beside notify
-- A process may have died, or its host may be cut off, while its connection is still open: for minutes the server does not notice. So a
-- waiter that polls doubts each of the other first three waiters that can clear a doubt (claim.h), and notifies it. A living waiter
-- polls, or asks for the lock, at once, which clears the doubt (clear_doubt).
--
-- The first poll makes the doubt 1. Each later poll adds the half spells that have passed since, but two at most. A spell is a third of
-- the waiter's TTL, and 0.3 s at least. At 5 the waiter leaves the queue: after two spells and three polls at least. A stall of the
-- server, after which all polls come together, or a step of its clock counts for one spell at most, so it removes no waiter. A waiter
-- that lives and was only late finds that it has no place, and takes the last. A lock that a message has granted is never taken back.
-- No waiter is notified of a doubt that cannot be kept, as when the user has no right to this key: each poll would notify it anew, and
-- the notified waiters would go on for ever.
local listens_at = {}
local function listens(inst)
  if listens_at[inst] == nil then
    local count = listeners(inst)
    listens_at[inst] = count == nil or tonumber(count) > 0
  end
  return listens_at[inst]
end

-- Doubt the waiter `member` at the time `now` in ms. Return true if it has been silent for too long.
local function is_silent(lock, queue, member, now)
  local kind, inst, value, ttl, rest = string.match(member, '^([SP]?)(%x+) (%x+) ([1-9]%d*) (.*)$')
  local can_clear = kind == '' and '^0%d+ ' or '^%d+ [23] '
  if not kind or #value ~= 32 or not string.find(rest, can_clear) then return false end
  local doubt, spell = beside(queue, 'doubt:') .. value, math.max(ttl / 3, 300)
  local old = redis.pcall('GET', doubt) or '0 0'
  local count, last = string.match(type(old) == 'string' and old or '', '^(%d) (%d+)$')
  local halves = count and math.floor(2 * math.abs(now - last) / spell) or 0
  if halves < 1 then return false end
  local is_notified = count ~= '0'
  if not is_notified then halves = 1 end
  count = count + math.min(halves, 2)
  local kept = redis.pcall('SET', doubt, count .. ' ' .. now, 'PX', math.ceil(math.max(2 * spell, 2500)))
  if kept.err then return false end
  if not is_notified then notify(inst, value .. (kind == '' and ' look ' or ' enter ') .. lock) end
  return count >= 5
end

-- Remove from the first three of the queue the waiters whose process does not listen any more or is silent, but not `member`, and no
-- more than `most`. Notify the waiters that come to stand among the first three. Return how many were removed.
local function drop_silent(lock, queue, member, most, now)
  local gone, dead = 0
  repeat
    dead = false
    for _, other in ipairs(redis.pcall('ZRANGE', queue, 0, 2)) do
      local inst = string.match(other, '^[SP]?(%x+) ')
      if inst and other ~= member and gone < most and (not listens(inst) or is_silent(lock, queue, other, now)) then
        redis.pcall('ZREM', queue, other)
        dead, gone = true, gone + 1
      end
    end
  until not dead or gone >= most
  if gone > 0 then
    -- needs: near
    notify_near(lock, queue, math.max(3 - gone, 0))
  end
  return gone
end

-- part: first
-- needs: numbers
-- Take the first waiter from the queue, and return it and its score. If there is none, delete the lock, and return nil. `direct`: as of
-- hand_over(). If the lock is to be left free, which hand_over() does, return false.
local function take_first(direct)
  if direct >= DIRECT_US then return false end
  local first, since = unpack(redis.pcall('ZPOPMIN', KEYS[2]))
  if not first then redis.call('DEL', KEYS[1]) end
  return first, since
end

-- part: reserve
-- needs: unreplicated
-- No client holds the lock, and `first` wants to share it or take a permit. Keep the lock for it as E<value>, for as long as it would
-- have had it, and notify it: it has to ask. With `is_free`, the lock stays free for a moment, and `first`, back at its place `since`,
-- is asked to come then. Return true if the lock is kept; false if it stays free; nil if `first` does not listen.
local function reserve(first, since, is_free)
  local inst, value, ttl = string.match(first, '^[SP](%x+) (%x+) ([1-9]%d*) ')
  if not inst or not notify_here(inst, value .. ' enter ' .. KEYS[1]) then return nil end
  if is_free then
    redis.pcall('ZADD', KEYS[2], since, first)
    return false
  end
  return not redis.pcall('SET', KEYS[1], 'E' .. value, 'PX', ttl).err or nil
end

-- part: hand_over
-- needs: numbers time counter near unreplicated reserve
-- Hand the lock on to the first waiter whose process still listens, and return true. If there is none, delete the lock and return
-- false. At most 100 waiters are looked at, because the server serves no other client meanwhile; behind more dead waiters than that,
-- the living find the lock when they poll.
--
-- The message has the last of the grant's numbers and how many there are; 0 if there is none: the waiter's next attempt says why.
--
-- `direct`: for how many us the lock has been handed on, by its holder's count. After DIRECT_US the lock is left free for FREE_US, so
-- that clients that know no queue and poll have a turn. The first waiter stays in the queue and is notified to ask. Behind all waiters
-- stands 'free' with the time at which this moment ends; it goes when the queue runs empty. `direct` of ASK_US: the lock is free
-- already and 'free' stands there; the first waiter is only notified to ask.
-- `first`, `since`: the first waiter and its score, if the caller has taken it from the queue already.
local function hand_over(direct, first, since)
  local us = direct >= DIRECT_US and time()
  if us and direct < ASK_US then
    redis.pcall('ZADD', KEYS[2], string.format('%.0f', FREE_BASE + us + FREE_US), 'free')
  end
  for gone = 1, 100 do
    if not first then first, since = unpack(redis.pcall('ZPOPMIN', KEYS[2])) end
    if not first then break end
    local inst, value, ttl, count = string.match(first, '^(%x+) (%x+) ([1-9]%d*) (%d+) ')
    if inst and #inst == 32 and #value == 32 then
      if not us and redis.pcall('SET', KEYS[1], value, 'PX', ttl).err then break end
      local n = 0
      count = tonumber(count)
      if not us and count > 0 then n, count = take_numbers(count, 0) end
      n = type(n) == 'number' and string.format('%.0f/%d', n, count) or '0/0'
      if notify_here(inst, value .. ' ' .. n .. ' ' .. (us and 0 or direct) .. ' ' .. KEYS[1]) then
        if not us then
          unreplicated(notify_near, KEYS[1], KEYS[2], math.max(3 - gone, 0))
          return true
        end
        redis.pcall('ZADD', KEYS[2], since, first)
        break
      end
    elseif string.find(first, '^[SP]%x') then
      local kept = reserve(first, since, us)
      if kept then return true end
      if kept == false then break end
    end
    first = nil
  end
  redis.call('DEL', KEYS[1])
  return false
end
