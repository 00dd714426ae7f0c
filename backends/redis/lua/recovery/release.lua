-- needs: beside recovery
-- In front of release.lua. During the recovery time, a lock is released and not handed on: a waiter may stand behind a holder of which
-- the server does not know. ARGV: as release.lua, and before the least number the token. Returns 2 as well: the lock was missing, and
-- no other client has got it since the data were lost.
do
  local left, refusal = recovery_left()
  if not left then return refusal end
  need_master()
  if left > 0 then
    local v, err = read(KEYS[1])
    if err then return err end
    if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end
    redis.pcall('SET', beside(KEYS[2], 'given:') .. ARGV[1], '1', 'PX', left)
    if v == ARGV[1] then
      redis.call('DEL', KEYS[1])
      if KEYS[4] then redis.pcall('DEL', KEYS[4]) end
      return 1
    end
    if redis.pcall('GET', beside(KEYS[2], 'broken:') .. ARGV[1]) then return -1 end
    return yields(v, beside(KEYS[2], 'info'), ARGV[4]) and 2 or 0
  end
end
