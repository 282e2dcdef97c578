-- KEYS: the roll of replicas. ARGV: its name, this replica, how long a heartbeat holds, how long it is fresh,
-- what to do: k keep the place on it; s strike all off; b begin to tell; j join, if all since b is still
-- here; l leave. Gives back whether this replica was on it or has left it lately, whether it is, how many are,
-- and how many of these are fresh.
local now_ms, span_ms = math.floor(clock(0, 0) / 1000), math.floor(tonumber(ARGV[3]) / 1000)
local what, begun, left = ARGV[5], KEYS[1] .. ARGV[2], KEYS[1] .. 'l' .. ARGV[2]
local was_on = redis.call('ZSCORE', KEYS[1], ARGV[2])
if what == 's' then redis.call('DEL', KEYS[1]) end
if what == 'l' then
  redis.call('ZREM', KEYS[1], ARGV[2])
  redis.call('SET', left, 1, 'PX', span_ms)
end
if what == 'b' then
  redis.call('SET', begun, 1, 'PX', span_ms)
  was_on = was_on or redis.call('GET', left)
end
local is_on = was_on and what == 'k' or what == 'j' and redis.call('DEL', begun) == 1
if is_on then redis.call('ZADD', KEYS[1], now_ms, ARGV[2]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now_ms - span_ms)
redis.call('PEXPIRE', KEYS[1], DAY_MS)
local fresh_ms = now_ms - math.floor(tonumber(ARGV[4]) / 1000)
return { was_on and 1 or 0, is_on and 1 or 0, redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], fresh_ms, '+inf') }
