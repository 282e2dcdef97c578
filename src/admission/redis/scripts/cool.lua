-- KEYS: a provider's meta. ARGV: its name, scope (p, k, m), key, model, reason, whether that is the
-- provider's limit (0/1), then the span for each number of failures in a row (-1: free). Gives back what is left of the deadline in force, or -1.
local prefix = string.sub(KEYS[1], 1, -2)
local hash = ARGV[2] == 'p' and KEYS[1] or prefix .. 'k' .. ARGV[3]
local field = ARGV[2] == 'm' and 'c' .. ARGV[4] or 'c'
local m = redis.call('HMGET', KEYS[1], 't', 'a')
local now, ahead = clock(m[1], m[2])
local packed = redis.call('HGET', hash, field)
local cooled = packed and cmsgpack.unpack(packed) or { 0, 0, '', false }
local level = cooled[2]
-- Requests that were under way when the cooldown began fail together; they are one failure.
if cooled[1] > now then level = math.max(0, level - 1) end
local span = tonumber(ARGV[math.min(7 + level, #ARGV)])
cooled[2] = math.min(level + 1, 15)
if span >= 0 and now + span > cooled[1] then
  cooled[1], cooled[3], cooled[4] = now + span, ARGV[5], ARGV[6] == '1'
end
redis.call('HSET', hash, field, cmsgpack.pack(cooled))
redis.call('PEXPIRE', hash, DAY_MS)
redis.call('HSET', KEYS[1], 't', int(now), 'a', int(ahead))
redis.call('PEXPIRE', KEYS[1], DAY_MS)
return cooled[1] > now and cooled[1] - now or -1
