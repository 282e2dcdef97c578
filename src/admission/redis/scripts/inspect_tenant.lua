-- KEYS: a tenant's windows. ARGV: its name, subjects. Gives back the money held, then for each subject
-- requests, tokens, in flight.
local prefix = string.sub(KEYS[1], 1, -2)
local m = redis.call('HMGET', KEYS[1], 't', 'a', 'h', 'n')
local now = clock(m[1], m[2])
local now_ms, second = math.floor(now / 1000), math.floor(now / SECOND)
local held, open = lapse(prefix, tonumber(m[3] or 0), tonumber(m[4] or 0), now_ms)
if m[3] then redis.call('HSET', KEYS[1], 'h', int(held), 'n', int(open)) end
local all = { held }
for i = 2, #ARGV do
  local w = window(redis.call('HGET', KEYS[1], 'w' .. ARGV[i]), second)
  local slots = redis.call('ZCOUNT', prefix .. 'i' .. ARGV[i], '(' .. int(now_ms), '+inf')
  all[#all + 1] = { w.requests, w.tokens, slots }
end
return all
