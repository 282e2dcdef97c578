-- KEYS: a provider's meta. ARGV: its name, scope (p, k, m), key, model.
local prefix = string.sub(KEYS[1], 1, -2)
if ARGV[2] == 'p' then return redis.call('HDEL', KEYS[1], 'c') end
local field = ARGV[2] == 'm' and 'c' .. ARGV[4] or 'c'
redis.call('HDEL', prefix .. 'k' .. ARGV[3], field)
local models = ARGV[2] == 'm' and { ARGV[4] } or redis.call('SMEMBERS', prefix .. 'vs')
reconsider(prefix, redis.call('HGET', KEYS[1], 'v'), ARGV[3], models)
return 1
