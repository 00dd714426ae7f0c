-- needs: beside recovery set leave extend
-- In front of shared_release.lua, as release.lua. ARGV: before the least number, the token and the marker of the holder's set.
do
  local left, refusal, now = recovery_left()
  if not left then return refusal end
  need_master()
  if left > 0 then
    local v, err = read(KEYS[1])
    if err then return err end
    local value = ARGV[1]
    if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end
    redis.pcall('SET', beside(KEYS[2], 'given:') .. value, '1', 'PX', left)
    local set = {now = now}
    set.kind, set.epoch = marker_of(v)
    set.name = set.kind and beside(KEYS[2], 'shared:') .. set.epoch
    if set.kind and redis.call('ZSCORE', set.name, value) then
      leave(set, value)
      if redis.call('ZCARD', set.name) == 0 then
        redis.call('DEL', KEYS[1])
        return 1
      end
      end_with_latest(set, KEYS[1])
      return 1
    end
    if redis.pcall('GET', beside(KEYS[2], 'broken:') .. value) then return -1 end
    return (v == ARGV[5] or yields(v, beside(KEYS[2], 'info'), ARGV[4])) and 2 or 0
  end
end
