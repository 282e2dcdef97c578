-- KEYS: a provider's meta. ARGV: its name, version, last chunk (0/1), number of owners, owner and
-- count of each, place of the first key, then id, owner, rank, rpm, tpm, concurrency of each.
local prefix = string.sub(KEYS[1], 1, -2)
local version = ARGV[2]
local have = redis.call('HGET', KEYS[1], 'v')
if have and tonumber(have) >= tonumber(version) then return 0 end
local owners = tonumber(ARGV[4])
local place = tonumber(ARGV[5 + 2 * owners])
for i = 6 + 2 * owners, #ARGV, 6 do
  local hash = prefix .. 'k' .. ARGV[i]
  redis.call('HSETNX', hash, 'q', place)
  redis.call('HSET', hash, 'o', ARGV[i + 1], 'r', ARGV[i + 2], 'rpm', ARGV[i + 3], 'tpm', ARGV[i + 4], 'con', ARGV[i + 5])
  redis.call('PEXPIRE', hash, DAY_MS)
  local base = prefix .. 'b' .. version .. ':' .. ARGV[i + 1]
  redis.call('ZADD', base, tonumber(ARGV[i + 2]) * RANK + tonumber(redis.call('HGET', hash, 'q')), ARGV[i])
  redis.call('PEXPIRE', base, DAY_MS)
  place = place + 1
end
if ARGV[3] == '1' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) == 'g' then redis.call('HDEL', KEYS[1], field) end
  end
  for i = 5, 4 + 2 * owners, 2 do
    redis.call('HSET', KEYS[1], 'g' .. ARGV[i], ARGV[i + 1])
  end
  redis.call('HSET', KEYS[1], 'v', version)
  redis.call('PEXPIRE', KEYS[1], DAY_MS)
end
return 1
