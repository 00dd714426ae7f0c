-- Return true if a break or show that names a holder names the one with this info: by the token, by '=' and the owner; '': any. A token
-- above `newest` belongs to a holder that came after the break began.
local function is_named(info, token, owner, newest)
  if token == '' and owner == '' and newest == '' then return true end
  local t, o = string.match(info, '^%S+ (%S+) %S+ %S+ %S+ (.*)$')
  return (token == '' or token == t) and
    (owner == '' or owner == '=' .. (o or '')) and
    (newest == '' or (tonumber(t) or 0) <= tonumber(newest))
end
