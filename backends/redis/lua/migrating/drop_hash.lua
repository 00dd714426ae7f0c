-- Delete the lock, if it is a hash. KEYS: lock.
return redis.pcall('TYPE', KEYS[1]).ok == 'hash' and redis.call('DEL', KEYS[1]) or 0
