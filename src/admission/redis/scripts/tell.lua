-- KEYS: a tenant's windows or a provider's meta. ARGV: its name, this replica, number of what it tells, then
-- name of each window (w and a subject, k and a key) and its seconds as one text: how long ago, requests,
-- tokens of each. Adds what a replica has counted in a minute that was lost here, once for each number.
-- Gives back the epoch.
local prefix = string.sub(KEYS[1], 1, -2)
local m = redis.call('HMGET', KEYS[1], 't', 'a', 'e')
local now, ahead = clock(m[1], m[2])
local second = math.floor(now / SECOND)
for i = 4, #ARGV, 2 do
  local of_key = string.sub(ARGV[i], 1, 1) == 'k'
  local hash = of_key and prefix .. ARGV[i] or KEYS[1]
  local field = of_key and 'w' or ARGV[i]
  local told = 'n' .. ARGV[2] .. (of_key and '' or string.sub(ARGV[i], 2))
  local h = redis.call('HMGET', hash, field, told)
  if h[2] ~= ARGV[3] then
    local w = window(h[1], second)
    for ago, requests, tokens in string.gmatch(ARGV[i + 1], '(%d+) (%d+) (%d+)') do
      add(w, second_of(-1 - ago, second), second, tonumber(requests), tonumber(tokens))
    end
    redis.call('HSET', hash, field, cmsgpack.pack(w.list), told, ARGV[3])
    redis.call('PEXPIRE', hash, DAY_MS)
  end
end
local epoch = m[3] or int(now)
redis.call('HSET', KEYS[1], 't', int(now), 'a', int(ahead), 'e', epoch)
redis.call('PEXPIRE', KEYS[1], DAY_MS)
return epoch
