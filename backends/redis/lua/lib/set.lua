-- needs: beside
-- A lock that several hold at once, shared or by permits. Its value is then a marker, S<epoch> or P<epoch>/<permits>, so foreign clients
-- see it held. The epoch is the fencing number of the holder that began the set, so no two sets have the same marker. Beside the queue
-- stand: in shared:<epoch> the values of the holders, by the end of their leases (ms of the server's clock); in shared:<epoch>:info for
-- each holder "since_ms token slot instance notified owner" (notified 0: the holder does not hear of its number; 2 and 3 are 0 and 1 of a
-- holder that an earlier release let in); and for permits in shared:<epoch>:slots the values by slot. A value that is not in the set
-- that the lock's marker names holds nothing, so a search for a holder begins at the lock. The marker ends with the latest lease, and
-- whatever ends a lease early sets the marker's end anew.
--
-- A set begins when a client asks. A lock that is handed on to a waiter that wants to share it is E and the waiter's value until then.
-- In the queue, S or P stands before the members that want to share (claim.h). The scripts of an earlier release ignore and drop
-- these; such waiters ask again by themselves. models/shared.pml is the model.
-- Return kind, epoch and number of permits of a marker; nil: `v` is none. The pattern takes time that grows with the square of a long
-- value, which only a foreign client writes.
local function marker_of(v)
  if v and #v <= 64 then return string.match(v, '^([SP])(%d+)/?(%d*)$') end
end

-- In a migrating slot of a cluster, a key that has gone is an error: let it end the script before anything is written.
local function need_all_keys(set)
  redis.call('HGET', set.name .. ':info', '')
  if set.kind == 'P' then redis.call('ZCARD', set.name .. ':slots') end
end

-- Return the set that the lock's value `v` names, at the time `now` in ms. kind false: `v` is no marker. `many` holders are in the set,
-- and `over` have left it because their leases were over, once it is swept (sweep.lua). `grown`: a holder has come (enter.lua).
local function set_of(v, queue, now)
  local kind, epoch, limit = marker_of(v)
  local set = {kind = kind or false, epoch = epoch or false, limit = limit or false, name = false,
    now = now, many = 0, over = 0, grown = false}
  if kind then
    set.name = beside(queue, 'shared:') .. epoch
    need_all_keys(set)
  end
  return set
end
