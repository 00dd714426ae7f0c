-- sets.lua: functions for locks that several holders have at once (embed.cmake).

-- part: set
-- needs: beside
-- A lock that several hold at once, shared or by permits. Its value is then a marker, S<epoch> or P<epoch>/<permits>, so foreign clients
-- see it held. The epoch is the fencing number of the holder that began the set, so no two sets have the same marker. Beside the queue
-- stand: in shared:<epoch> the values of the holders, by the end of their leases (ms of the server's clock); in shared:<epoch>:info for
-- each holder "since_ms token slot instance notified owner" (notified 0: the holder does not hear of its number; 2 and 3 are 0 and 1 of a
-- holder that an earlier release let in); and for permits in shared:<epoch>:slots the values by slot. A value that is not in the set
-- that the lock's marker names holds nothing, so a search for a holder begins at the lock. The marker ends with the latest lease, and
-- whatever ends a lease early sets the marker's end anew.
--
-- A set begins when a client asks. A lock that is handed on to a waiter that wants to share it is E and the waiter's value until then.
-- In the queue, S or P stands before the members that want to share (claim.h). The scripts of an earlier release ignore and drop
-- these; such waiters ask again by themselves. models/shared.pml is the model.
-- Return kind, epoch and number of permits of a marker; nil: `v` is none. The pattern takes time that grows with the square of a long
-- value, which only a foreign client writes.
local function marker_of(v)
  if v and #v <= 64 then return string.match(v, '^([SP])(%d+)/?(%d*)$') end
end

-- Return the set that the lock's value `v` names, at the time `now` in ms. kind false: `v` is no marker. `many` holders are in the set,
-- and `over` have left it because their leases were over, once it is swept (sweep). `grown`: a holder has come (enter).
-- In a migrating slot of a cluster, a key that has gone is an error, which ends the script here, before anything is written.
local function set_of(v, queue, now)
  local kind, epoch, limit = marker_of(v)
  local set = {kind = kind or false, epoch = epoch or false, limit = limit or false, name = false,
    now = now, many = 0, over = 0, grown = false}
  if kind then
    set.name = beside(queue, 'shared:') .. epoch
    redis.call('HGET', set.name .. ':info', '')
    if kind == 'P' then redis.call('ZCARD', set.name .. ':slots') end
  end
  return set
end

-- part: sweep
-- Remove the holders whose leases are over, and count them and the others.
local function sweep(set)
  if not set.kind then return end
  local over = redis.call('ZRANGEBYSCORE', set.name, '-inf', '(' .. set.now, 'LIMIT', 0, 1000)
  if over[1] then
    redis.call('ZREM', set.name, unpack(over))
    redis.call('HDEL', set.name .. ':info', unpack(over))
    if set.kind == 'P' then redis.call('ZREM', set.name .. ':slots', unpack(over)) end
  end
  set.over, set.many = #over, redis.call('ZCARD', set.name)
end

-- part: extend
-- Write something that changes nothing. A server without memory refuses whatever may take some, ZADD too, until the script has written
-- something: then no lease would be extended, and no lock broken, any more.
local function write_first(set)
  redis.call('ZREM', set.name, '')
end

-- Let the lock, and the set's keys, end with the latest lease.
local function end_with_latest(set, lock)
  local latest = redis.call('ZRANGE', set.name, -1, -1, 'WITHSCORES')[2] or set.now
  for _, key in ipairs({lock, set.name, set.name .. ':info', set.kind == 'P' and set.name .. ':slots' or nil}) do
    redis.call('PEXPIREAT', key, latest)
  end
end

-- part: leave
-- Remove a holder.
local function leave(set, value)
  redis.call('ZREM', set.name, value)
  redis.call('HDEL', set.name .. ':info', value)
  if set.kind == 'P' then redis.call('ZREM', set.name .. ':slots', value) end
end

-- part: enter
-- needs: beside counter
-- Let `value` hold the lock KEYS[1], as kind, limit (of permits), inst, owner and ttl say; begin a set if there is none. Return its
-- number and slot, or an error. The slot of a permit is the least that is free: the least number for which not all slots up to it are
-- taken. The caller sets the end of the marker (end_with_latest). A set that begins gets its end at once, and the script makes sure that
-- it may set ends before the set exists: a missing right ends the script at any line, and nothing may stay for ever.
local function enter(set, kind, limit, inst, owner, value, ttl)
  local n = take_numbers(1, 0)
  if type(n) ~= 'number' then return n end
  local token, slot, begins = string.format('%.0f', n), 0, not set.kind
  if begins then
    set.kind, set.epoch, set.limit, set.many = kind, token, limit, 0
    set.name = beside(KEYS[2], 'shared:') .. token
    redis.call('PEXPIREAT', set.name, set.now)
  end
  if set.kind == 'P' then
    local high = set.many
    while slot < high do
      local mid = math.floor((slot + high) / 2)
      if redis.call('ZCOUNT', set.name .. ':slots', 0, mid) > mid then slot = mid + 1 else high = mid end
    end
  end
  local told = string.gsub(owner, '^[23]', {['2'] = '0', ['3'] = '1'})
  redis.call('HSET', set.name .. ':info', value, set.now .. ' ' .. token .. ' ' .. slot .. ' ' .. inst .. ' ' .. told)
  if begins then redis.call('PEXPIREAT', set.name .. ':info', set.now + ttl) end
  redis.call('ZADD', set.name, set.now + ttl, value)
  if begins then redis.call('PEXPIREAT', set.name, set.now + ttl) end
  if set.kind == 'P' then redis.call('ZADD', set.name .. ':slots', slot, value) end
  if begins and set.kind == 'P' then redis.call('PEXPIREAT', set.name .. ':slots', set.now + ttl) end
  if begins then redis.call('SET', KEYS[1], kind .. token .. (kind == 'P' and '/' .. limit or ''), 'PX', ttl) end
  set.many, set.grown = set.many + 1, true
  return n, slot
end

-- part: admit
-- needs: unreplicated enter
-- Let the waiters at the head of the queue enter, as far as they can beside the holders. Each is notified, and asks what it got. A
-- waiter that does not listen any more leaves the queue, whatever it wants. `member`, if given, stays in the queue. At most 100 waiters
-- are looked at.
local function admit(set, member)
  for _ = 1, 100 do
    local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not first or first == member or first == 'free' then break end
    local kind, inst, value, ttl, limit, owner = string.match(first, '^([SP]?)(%x+) (%x+) ([1-9]%d*) (%d+) (.*)$')
    if not kind or #inst ~= 32 or #value ~= 32 then
      redis.call('ZREM', KEYS[2], first)
    elseif kind == set.kind and (kind == 'S' or limit == set.limit and set.many < tonumber(set.limit)) then
      local received = notify_here(inst, value .. ' enter ' .. KEYS[1])
      redis.call('ZREM', KEYS[2], first)
      if received and type(enter(set, kind, limit, inst, owner, value, ttl)) ~= 'number' then break end
    else
      local count = listeners(inst)
      if count == nil or tonumber(count) > 0 then break end
      redis.call('ZREM', KEYS[2], first)
    end
  end
end

-- part: guard
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

-- part: named
-- Return true if a break or show that names a holder names the one with this info: by the token, by '=' and the owner; '': any. A token
-- above `newest` belongs to a holder that came after the break began.
local function is_named(info, token, owner, newest)
  if token == '' and owner == '' and newest == '' then return true end
  local t, o = string.match(info, '^%S+ (%S+) %S+ %S+ %S+ (.*)$')
  return (token == '' or token == t) and
    (owner == '' or owner == '=' .. (o or '')) and
    (newest == '' or (tonumber(t) or 0) <= tonumber(newest))
end
