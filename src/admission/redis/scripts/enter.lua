-- KEYS: a tenant's windows. ARGV: its name, request, tokens, hold, funds ('' if not limited), lease
-- span, hold span, epoch expected, then subject, rpm, tpm, concurrency of each. Gives back {1, second,
-- epoch} in; {2, kind, place of the subject, wait} limited, kind 1 rpm, 2 tpm, 3 concurrency; {3} spent;
-- {4} held; {5} these are not the counters expected.
local prefix = string.sub(KEYS[1], 1, -2)
local fields = { 't', 'a', 'h', 'n', 'e' }
for i = 9, #ARGV, 4 do fields[#fields + 1] = 'w' .. ARGV[i] end
local m = read(KEYS[1], fields)
if missing(m[5], ARGV[8]) then return { 5 } end
local now, ahead = clock(m[1], m[2])
local now_ms, second = math.floor(now / 1000), math.floor(now / SECOND)
local tokens, hold = tonumber(ARGV[3]), tonumber(ARGV[4])
local held, open = lapse(prefix, tonumber(m[3] or 0), tonumber(m[4] or 0), now_ms)
local verdict
if ARGV[5] ~= '' then
  local funds = tonumber(ARGV[5])
  if funds <= 0 then verdict = { 3 } elseif open > 0 and hold > funds - held then verdict = { 4 } end
end
local windows, subjects = {}, ''
for i = 9, #ARGV, 4 do
  if verdict then break end
  local place = (i - 9) / 4
  local subject, rpm, tpm, con = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local w = window_in(KEYS[1], 'w' .. subject, second)
  windows[#windows + 1] = w
  subjects = subjects .. subject
  local back = room_for_request(w, rpm, now)
  if back then
    verdict = { 2, 1, place, back - now }
  else
    back = room_for_tokens(w, tpm, tokens, now)
    if back then verdict = { 2, 2, place, back - now } end
  end
  if not verdict and con >= 0 then
    local slots = prefix .. 'i' .. subject
    redis.call('ZREMRANGEBYSCORE', slots, 0, now_ms)
    if redis.call('ZCARD', slots) >= con then verdict = { 2, 3, place, con == 0 and 60 * SECOND or SECOND } end
  end
end
local epoch = m[5] or int(now)
if not verdict then
  local slot_ms = now_ms + math.floor(tonumber(ARGV[6]) / 1000)
  for place, w in ipairs(windows) do
    local slots = prefix .. 'i' .. ARGV[5 + 4 * place]
    add(w, second, second, 1, tokens)
    redis.call('ZADD', slots, int(slot_ms), ARGV[2])
    expire(slots, TENANT_MS)
  end
  redis.call('HSET', prefix .. 'p', ARGV[2], cmsgpack.pack({ second, tokens, hold, subjects }))
  local lapses_ms = hold > 0 and now_ms + math.floor(tonumber(ARGV[7]) / 1000) or slot_ms
  redis.call('ZADD', prefix .. 'x', int(lapses_ms), ARGV[2])
  expire(prefix .. 'p', TENANT_MS)
  expire(prefix .. 'x', TENANT_MS)
  if hold > 0 then held, open = held + hold, open + 1 end
end
write(KEYS[1], 't', int(now))
write(KEYS[1], 'a', int(ahead))
write(KEYS[1], 'e', epoch)
write(KEYS[1], 'h', int(held))
write(KEYS[1], 'n', int(open))
expire(KEYS[1], TENANT_MS)
return verdict or { 1, second, tonumber(epoch) }
