-- needs: numbers
-- Return for how many ms the lock is still left free for clients that know no queue (hand_over.lua), given the score of 'free' in the
-- queue and the time in us; false: it is not.
local function left_free(score, us)
  local left = score - FREE_BASE - us
  return left > 0 and left <= FREE_US and math.ceil(left / 1000)
end
