-- Return the name of a key beside a queue: the queue's name ends in 'queue', and the other names have another word in its place. They
-- are info (of a grant), broken:VALUE (the mark that break leaves of a lock that it took away), given:VALUE (the mark of a release during
-- the recovery time), doubt:VALUE (whether a waiter is alive), and shared:EPOCH (a set of holders). 'shared:' alone never exists: no
-- lock has this name (keys.c), and each set has its epoch behind it.
local function beside(queue, what)
  return string.sub(queue, 1, -6) .. what
end
