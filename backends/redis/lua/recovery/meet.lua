-- Begin the recovery time, if the data are of an unknown life: nothing is granted meanwhile. KEYS: the mark. ARGV: the life, `recovery`
-- in ms. Returns how many ms are left; 0 or less: none.
local life, mark = ARGV[1], redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local other = mark and string.match(mark, '^(%d+) ')
if other and other ~= ARGV[2] then return redis.error_reply('RECOVERY ' .. other) end
if mark and string.sub(mark, 1, #life) == life then
  local left = (tonumber(string.sub(mark, #life + 1)) or 0) - now
  if left <= tonumber(ARGV[2]) then return left end
end
redis.call('SET', KEYS[1], life .. string.format('%.0f', now + ARGV[2]))
return tonumber(ARGV[2])
