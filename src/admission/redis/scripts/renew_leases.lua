-- KEYS: a provider's meta. ARGV: its name, lease span, then lease, key, second (below zero: not counted
-- here yet, see second_of), tokens of each. A lease that is not known (lost, lapsed, or granted while this server was
-- away) is posted again, its window entry included. Gives back the epoch and the present second.
local prefix = string.sub(KEYS[1], 1, -2)
local m = redis.call('HMGET', KEYS[1], 't', 'a', 'e')
local now, ahead = clock(m[1], m[2])
local second = math.floor(now / SECOND)
local until_ms = math.floor((now + tonumber(ARGV[2])) / 1000)
for i = 3, #ARGV, 4 do
  local leases, hash = prefix .. 'l' .. ARGV[i + 1], prefix .. 'k' .. ARGV[i + 1]
  if redis.call('ZADD', leases, until_ms, ARGV[i]) == 1 then
    local w = window(redis.call('HGET', hash, 'w'), second)
    add(w, second_of(ARGV[i + 2], second), second, 1, tonumber(ARGV[i + 3]))
    redis.call('HSET', hash, 'w', cmsgpack.pack(w.list))
    redis.call('PEXPIRE', hash, DAY_MS)
  end
  redis.call('ZREMRANGEBYSCORE', leases, 0, math.floor(now / 1000))
  redis.call('PEXPIRE', leases, VIEW_MS)
end
local epoch = m[3] or int(now)
redis.call('HSET', KEYS[1], 't', int(now), 'a', int(ahead), 'e', epoch)
redis.call('PEXPIRE', KEYS[1], DAY_MS)
return { epoch, second }
