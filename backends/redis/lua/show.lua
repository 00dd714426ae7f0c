-- needs: master inspect
-- Return what inspect() does. KEYS: lock, queue, counter, info.
return replica_error(KEYS[2]) or inspect()
