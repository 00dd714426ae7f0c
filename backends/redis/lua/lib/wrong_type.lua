-- Return true if the reply is the error of a key that has another type.
local function is_wrong_type(reply)
  return type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) ~= nil
end
