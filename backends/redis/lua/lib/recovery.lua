-- needs: wrong_type
-- For a locker with `recovery` (recovery.h; models/recovery.pml is the model). The mark's name is the last of KEYS, and the life of the
-- server that the caller knows is the last of ARGV; the script behind does not see them.
--
-- Why a mark and not the server's INFO: a script that reads INFO costs more than the lock. A restart changes the run id, a promotion the
-- replication id, and FLUSHALL or a start without data removes the mark with the locks, so each loss shows. A replica that is made
-- master has its master's mark, of an earlier life. The server's uptime is not subtracted from the recovery time: that would be right
-- after a restart and wrong after FLUSHALL, and a later client cannot tell these apart. So the first lock of a namespace waits, too. A
-- cluster would need a mark for each slot, because a script sees the keys of a single slot.
--
-- A renewal that arrives late may set a lock that no client holds, for a TTL. It takes a lock from a later holder only until that
-- holder's next renewal, and nothing is granted before that.
local life, mark_name = table.remove(ARGV), table.remove(KEYS)

-- Return for how many ms the recovery time still lasts (0 or less: it is over), the server's time in us, and that in ms. Return nil and
-- an error if the data or the caller are of another life.
local function recovery_left()
  local mark = redis.call('GET', mark_name)
  if not mark or string.sub(mark, 1, #life) ~= life then
    local other = mark and string.match(mark, '^(%d+) ')
    if other and other ~= string.match(life, '^(%d+) ') then return nil, redis.error_reply('RECOVERY ' .. other) end
    return nil, redis.error_reply('FORGOTTEN the data are not of this life of the server')
  end
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local left = (tonumber(string.sub(mark, #life + 1)) or 0) - now
  if left > tonumber(string.match(life, '^%d+')) then return nil, redis.error_reply('FORGOTTEN the clock was set back') end
  return left, t[1] * 1000000 + t[2], now
end

-- End the script with an error if this server has become a replica: it would report as missing what the master has.
local function need_master()
  redis.call('DEL', mark_name .. ':{')
end

-- Return the value of a lock: '?' if it is no string. Return nil and an error if it cannot be read.
local function read(lock)
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'table' then return v end
  if is_wrong_type(v) then return '?' end
  return nil, v
end

-- Return true if a holder with this token, whose deadline has not passed, may take the place of the value `v`: if there is no value, or
-- a lock of ours that is not known to have a greater token. Such a lock is an earlier holder's, whose release the server did not see.
-- A foreign client's value stays: the second half of our values begins with 0 to 7 (value.c), which no UUID's does. `info`: the name of
-- the lock's info.
local function yields(v, info, token)
  if not v or #v == 33 and string.find(v, '^E%x+$') then return true end
  local epoch = string.match(v, '^S(%d+)$') or string.match(v, '^P(%d+)/%d+$')
  if epoch then return tonumber(epoch) < tonumber(token) end
  if #v ~= 32 or string.find(v, '[^0-9a-f]') or string.find(v, '^[89a-f]', 17) then return false end
  local text = redis.pcall('GET', info)
  local n = type(text) == 'string' and string.sub(text, 1, 33) == v .. ' ' and string.match(text, '^%d+ (%d+) ', 34)
  return not n or tonumber(n) < tonumber(token)
end
