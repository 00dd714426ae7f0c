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
