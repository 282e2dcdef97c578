-- KEYS: a provider's meta. ARGV: its name, keys. Gives back for each: requests, tokens, in flight, used
-- since when (-1: never), then model, rest, reason of each cooldown in one list.
local prefix = string.sub(KEYS[1], 1, -2)
local m = redis.call('HMGET', KEYS[1], 't', 'a', 'c')
local now = clock(m[1], m[2])
local all = {}
for i = 2, #ARGV do
  local fields = redis.call('HGETALL', prefix .. 'k' .. ARGV[i])
  local packed, used, cooled = nil, -1, {}
  local function list(model, value)
    local back = in_force(value, now)
    if back then
      cooled[#cooled + 1], cooled[#cooled + 2] = model, int(back - now)
      cooled[#cooled + 1] = cmsgpack.unpack(value)[3]
    end
  end
  if m[3] then list('', m[3]) end
  for f = 1, #fields, 2 do
    local field, value = fields[f], fields[f + 1]
    if field == 'w' then packed = value end
    if field == 'u' then used = now - tonumber(value) end
    if field == 'c' then list('', value) end
    if #field == 17 and string.sub(field, 1, 1) == 'c' then list(string.sub(field, 2), value) end
  end
  local w = window(packed, math.floor(now / SECOND))
  local leases = redis.call('ZCOUNT', prefix .. 'l' .. ARGV[i], '(' .. int(math.floor(now / 1000)), '+inf')
  all[#all + 1] = { w.requests, w.tokens, leases, used, cooled }
end
return all
