-- needs: recovery
-- In front of a script that grants, or answers who holds a lock: it has to wait until the recovery time is over.
do
  local left, refusal = recovery_left()
  if not left then return refusal end
  if left > 0 then return redis.error_reply('RECOVERING ' .. string.format('%.0f', left)) end
end
