-- KEYS: the replicas. ARGV: offset, this replica, how long a heartbeat holds. Gives back how many live.
local now = clock(0, 0)
redis.call('ZADD', KEYS[1], math.floor(now / 1000), ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, math.floor((now - tonumber(ARGV[3])) / 1000))
redis.call('PEXPIRE', KEYS[1], DAY_MS)
return redis.call('ZCARD', KEYS[1])
