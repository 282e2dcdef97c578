-- KEYS: a tenant's windows. ARGV: its name, request, tokens used (-1: keep the reservation), requests
-- to take back, and if it is to be counted when it is not known: its second (see second_of), tokens,
-- subjects. Gives back whether it was in.
local prefix = string.sub(KEYS[1], 1, -2)
local packed = redis.call('HGET', prefix .. 'p', ARGV[2])
if not packed and not ARGV[5] then return 0 end
local m = read(KEYS[1], { 't', 'a', 'h', 'n' })
local now = clock(m[1], m[2])
local second = math.floor(now / SECOND)
if not packed then
  if not first_told(prefix, ARGV[2]) then return 0 end
  for i = 1, #ARGV[7], 17 do
    local field = 'w' .. string.sub(ARGV[7], i, i + 16)
    add(window_in(KEYS[1], field, second), second_of(ARGV[5], second), second, 1, tonumber(ARGV[6]))
  end
  expire(KEYS[1], TENANT_MS)
  return 0
end
local held, open, pass = forget(prefix, tonumber(m[3] or 0), tonumber(m[4] or 0), ARGV[2], packed)
write(KEYS[1], 'h', int(held))
write(KEYS[1], 'n', int(open))
local used, requests = tonumber(ARGV[3]), tonumber(ARGV[4])
local change = used >= 0 and used - pass[2] or 0
if change ~= 0 or requests > 0 then
  for i = 1, #pass[4], 17 do
    local field = 'w' .. string.sub(pass[4], i, i + 16)
    add(window_in(KEYS[1], field, second), pass[1], second, -requests, change)
  end
end
expire(KEYS[1], TENANT_MS)
return 1
