-- Part of a script: lets go of passes that nobody renewed.
local function forget(prefix, held, open, request, packed)
  if not packed then return held, open end
  local pass = cmsgpack.unpack(packed)
  redis.call('HDEL', prefix .. 'p', request)
  redis.call('ZREM', prefix .. 'x', request)
  for i = 1, #pass[4], 17 do
    redis.call('ZREM', prefix .. 'i' .. string.sub(pass[4], i, i + 16), request)
  end
  if pass[3] > 0 then return held - pass[3], open - 1, pass end
  return held, open, pass
end

local has_lapsed = false

local function lapse(prefix, held, open, now_ms)
  -- A call has but one moment.
  if has_lapsed then return held, open end
  has_lapsed = true
  local gone = redis.call('ZRANGEBYSCORE', prefix .. 'x', 0, int(now_ms), 'LIMIT', 0, 64)
  for _, request in ipairs(gone) do
    local packed = redis.call('HGET', prefix .. 'p', request)
    held, open = forget(prefix, held, open, request, packed)
    if not packed then redis.call('ZREM', prefix .. 'x', request) end
  end
  return held, open
end
