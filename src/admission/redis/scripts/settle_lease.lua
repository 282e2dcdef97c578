-- KEYS: a provider's meta. ARGV: its name, lease, key, model, second counted (-1: not counted here),
-- tokens reserved, tokens used, requests to take back, served (0/1), second to count it in if it is not
-- known ('': none, else see second_of), and to undo also its use and the one before. Gives back whether it
-- was live.
local prefix = string.sub(KEYS[1], 1, -2)
local id, model = ARGV[3], ARGV[4]
local hash = prefix .. 'k' .. id
local m = read(KEYS[1], { 'v', 't', 'a', 'c' })
local now = clock(m[2], m[3])
local second = math.floor(now / SECOND)
local k = read(hash, { 'w', 'wt', 'c', 'c' .. model, 'r' })
local live = redis.call('ZREM', prefix .. 'l' .. id, ARGV[2])
local requests, change = tonumber(ARGV[8]), tonumber(ARGV[7]) - tonumber(ARGV[6])
if live == 1 and (k[1] or k[5]) and (requests > 0 or change ~= 0) then
  add(window_in(hash, 'w', second), tonumber(ARGV[5]), second, -requests, change)
end
if live == 0 and ARGV[10] ~= '' and first_told(prefix, ARGV[2]) then
  add(window_in(hash, 'w', second), second_of(ARGV[10], second), second, 1, tonumber(ARGV[7]))
  expire(hash, DAY_MS)
end
if ARGV[9] == '1' then
  if k[3] and not in_force(k[3], now) then remove(hash, 'c') end
  if k[4] and not in_force(k[4], now) then remove(hash, 'c' .. model) end
  if m[4] and not in_force(m[4], now) then remove(KEYS[1], 'c') end
end
-- An undone use does not move the key back in line, else requests refused at the door would make the
-- others skip keys.
if ARGV[11] and live == 1 and read(hash, { 'q' })[1] == ARGV[11] then
  write(hash, 'q', ARGV[12])
  local owner, rank = unpack(read(hash, { 'o', 'r' }))
  local view = m[1] and rank and prefix .. 'r' .. m[1] .. ':' .. owner .. model
  local at = view and tonumber(redis.call('ZSCORE', view, id) or PARKED)
  if at and at < PARKED then redis.call('ZADD', view, int(tonumber(rank) * RANK + tonumber(ARGV[12])), id) end
end
if live == 1 and k[2] then
  local models = {}
  for i = 1, #k[2], 16 do models[#models + 1] = string.sub(k[2], i, i + 15) end
  reconsider(prefix, m[1], id, models)
  remove(hash, 'wt')
end
return live
