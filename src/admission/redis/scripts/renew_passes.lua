-- KEYS: a tenant's windows. ARGV: its name, lease span, hold span, then request, second (below zero: not
-- counted here yet, see second_of), tokens, hold, subjects of each. A pass that is not known is posted again, its
-- window entries included. Gives back the epoch.
local prefix = string.sub(KEYS[1], 1, -2)
local m = redis.call('HMGET', KEYS[1], 't', 'a', 'h', 'n', 'e')
local now, ahead = clock(m[1], m[2])
local now_ms, second = math.floor(now / 1000), math.floor(now / SECOND)
local slot_ms = now_ms + math.floor(tonumber(ARGV[2]) / 1000)
local held, open = tonumber(m[3] or 0), tonumber(m[4] or 0)
for i = 4, #ARGV, 5 do
  local request, tokens, hold, subjects = ARGV[i], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), ARGV[i + 4]
  local counted = second_of(ARGV[i + 1], second)
  local known = redis.call('HEXISTS', prefix .. 'p', request) == 1
  if not known then
    redis.call('HSET', prefix .. 'p', request, cmsgpack.pack({ counted, tokens, hold, subjects }))
    if hold > 0 then held, open = held + hold, open + 1 end
  end
  for j = 1, #subjects, 17 do
    local subject = string.sub(subjects, j, j + 16)
    redis.call('ZADD', prefix .. 'i' .. subject, slot_ms, request)
    redis.call('PEXPIRE', prefix .. 'i' .. subject, TENANT_MS)
    if not known then
      local w = window(redis.call('HGET', KEYS[1], 'w' .. subject), second)
      add(w, counted, second, 1, tokens)
      redis.call('HSET', KEYS[1], 'w' .. subject, cmsgpack.pack(w.list))
    end
  end
  redis.call('ZADD', prefix .. 'x', hold > 0 and now_ms + math.floor(tonumber(ARGV[3]) / 1000) or slot_ms, request)
end
held, open = lapse(prefix, held, open, now_ms)
redis.call('PEXPIRE', prefix .. 'p', TENANT_MS)
redis.call('PEXPIRE', prefix .. 'x', TENANT_MS)
local epoch = m[5] or int(now)
redis.call('HSET', KEYS[1], 't', int(now), 'a', int(ahead), 'e', epoch, 'h', int(held), 'n', int(open))
redis.call('PEXPIRE', KEYS[1], TENANT_MS)
return epoch
