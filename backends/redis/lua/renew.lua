-- Extend leases, also of shared locks and permits.
-- KEYS: locks, and behind each its info, or the queue of a shared lock or a permit. ARGV: their values in one string of 32 bytes each, and
-- then the ttl in ms: one for all, or one for each. Returns a string with 1 (extended) or 0 (not ours) for each.
-- needs: value
local out = {}
for i = 1, #KEYS / 2 do
  local lock, value, ttl = KEYS[2 * i - 1], string.sub(ARGV[1], 32 * i - 31, 32 * i), ARGV[i + 1] or ARGV[2]
  local v = get(lock)
  if v == value then
    redis.call('PEXPIRE', lock, ttl)
    redis.pcall('PEXPIRE', KEYS[2 * i], ttl)
    out[i] = '1'
  elseif string.sub(KEYS[2 * i], -5) == 'queue' then
    -- needs: time master set extend guard
    local answer, refusal = guard(function()
      local _, now = time()
      local set = set_of(v, KEYS[2 * i], now)
      local ends = set.kind and redis.call('ZSCORE', set.name, value)
      if not ends or tonumber(ends) < now then return '0', (replica_error(KEYS[2 * i])) end
      write_first(set)
      redis.call('ZADD', set.name, now + ttl, value)
      end_with_latest(set, lock)
      return '1'
    end)
    if refusal then return refusal end
    out[i] = answer
  else
    -- needs: master
    local refusal = replica_error(string.match(KEYS[2 * i], '^.*:') .. 'queue')
    if refusal then return refusal end
    out[i] = '0'
  end
end
return table.concat(out)
