-- KEYS: a provider's meta. ARGV: its name, pool version, lease, tenant, model, tokens, lease span,
-- misfits to step over, epoch expected, excluded keys. Gives back {0} load the pool; {1, key, second, version, use,
-- last use, epoch} leased; {2, wait, limited, failing, full} no key, wait -1: none would come; {3} repeat, much had
-- to be parked; {4} these are not the counters expected.
local prefix = string.sub(KEYS[1], 1, -2)
local tenant, model, tokens = ARGV[4], ARGV[5], tonumber(ARGV[6])
local m = read(KEYS[1], { 'v', 's', 't', 'a', 'c', 'e', 'g', 'g' .. tenant })
if missing(m[6], ARGV[9]) then return { 4 } end
local version = m[1]
if not version or tonumber(version) < tonumber(ARGV[2]) then return { 0 } end
local counts = { m[7], m[8] }
local now, ahead = clock(m[3], m[4])
local now_ms = math.floor(now / 1000)
local second = math.floor(now / SECOND)
local epoch = m[6]
if not epoch then
  epoch = int(now)
  write(KEYS[1], 'e', epoch)
end
local visible = tonumber(counts[1] or 0) + tonumber(counts[2] or 0)
local provider_out, provider_band = in_force(m[5], now)
if provider_out then
  local limited = provider_band == LIMITED and visible or 0
  return { 2, visible > 0 and provider_out - now or -1, limited, visible - limited, 0 }
end

local excluded = {}
for i = 10, #ARGV do excluded[ARGV[i]] = true end

local keys = {}
local lost = false
local function key_of(id)
  local key = keys[id]
  if not key then
    local k = read(prefix .. 'k' .. id, { 'r', 'q', 'rpm', 'tpm', 'con', 'c', 'c' .. model, 'wt' })
    if not k[1] then
      lost = true
      return nil
    end
    key = { score = tonumber(k[1]) * RANK + tonumber(k[2]), rank = tonumber(k[1]), rpm = tonumber(k[3]),
      tpm = tonumber(k[4]), con = tonumber(k[5]), out = k[6] or nil, out_model = k[7] or nil, waiting = k[8] or '' }
    keys[id] = key
  end
  return key
end

local views = {}
for i, owner in ipairs({ '', tenant }) do
  if counts[i] then
    local name = prefix .. 'r' .. version .. ':' .. owner .. model
    -- A call has but one moment: what is parked in it comes back after it.
    local parked = not looked_at[name] and redis.call('ZRANGEBYSCORE', name, PARKED, '+inf', 'LIMIT', 0, 1) or {}
    looked_at[name] = true
    for _, band in ipairs(parked[1] and { FAILING, LIMITED, FULL, BUSY } or {}) do
      local due = redis.call('ZRANGEBYSCORE', name, band, band + now_ms, 'LIMIT', 0, 256)
      for _, id in ipairs(due) do
        local key = key_of(id)
        if key then redis.call('ZADD', name, key.score, id) end
      end
      if #due == 256 then
        looked_at[name] = nil
        return { 3 }
      end
    end
    views[#views + 1] = { name = name, owner = owner, batch = {}, at = 1, from = 0, size = 1, seen = {} }
  end
end

local function fetch(view)
  local got = redis.call('ZRANGEBYSCORE', view.name, view.from, '(' .. int(PARKED), 'WITHSCORES', 'LIMIT', 0, view.size)
  if #got == 0 and view.from == 0 and not view.opened and redis.call('EXISTS', view.name) == 0 then
    view.opened = true
    if redis.call('ZUNIONSTORE', view.name, 1, prefix .. 'b' .. version .. ':' .. view.owner) == 0 then lost = true end
    redis.call('SADD', prefix .. 'vs', model)
    redis.call('PEXPIRE', prefix .. 'vs', DAY_MS)
    return fetch(view)
  end
  view.batch, view.at = {}, 1
  for i = 1, #got, 2 do
    if not view.seen[got[i]] then view.batch[#view.batch + 1] = { got[i], tonumber(got[i + 1]) } end
  end
  -- Keys with one score may fill a batch that was seen already.
  if #view.batch == 0 and #got == 2 * view.size then
    view.size = view.size * 4
    return fetch(view)
  end
end

-- The next ready key of a view in true order: entries used for other models since move back first.
local function head(view)
  while not lost do
    local entry = view.batch[view.at]
    if not entry then
      fetch(view)
      entry = view.batch[1]
      if not entry then return nil end
    end
    local key = key_of(entry[1])
    if not key then return nil end
    if key.score == entry[2] then return entry[1], key end
    redis.call('ZADD', view.name, key.score, entry[1])
    view.from = entry[2]
    -- It may now belong between the entries fetched already.
    view.batch = {}
  end
end

local function pass_by(view)
  local entry = view.batch[view.at]
  view.seen[entry[1]] = true
  view.from = entry[2]
  view.at = view.at + 1
  view.size = math.min(64, view.size * 4)
end

local function standing(id, key)
  local out, band = in_force(key.out, now)
  local out_model, band_model = in_force(key.out_model, now)
  if out_model and out_model >= (out or 0) then out, band = out_model, band_model end
  if out then return band, out end
  if key.rpm == 0 or key.tpm == 0 or key.con == 0 then return FULL, NEVER_MS * 1000 end
  if key.con > 0 then
    local leases = prefix .. 'l' .. id
    redis.call('ZREMRANGEBYSCORE', leases, 0, now_ms)
    if redis.call('ZCARD', leases) >= key.con then
      return BUSY, tonumber(redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]) * 1000
    end
  end
  key.w = window_in(prefix .. 'k' .. id, 'w', second)
  local back = room_for_request(key.w, key.rpm, now)
  if back then return FULL, back end
  if key.tpm > 0 then
    back = room_for_tokens(key.w, key.tpm, 1, now)
    if back then return FULL, back end
    back = room_for_tokens(key.w, key.tpm, tokens, now)
    if back then return 'misfit', back end
  end
  return 'usable'
end

local function park(view, id, key, band, back)
  redis.call('ZADD', view.name, band + math.ceil(back / 1000), id)
  if band >= FULL and not string.find(key.waiting, model, 1, true) then
    key.waiting = key.waiting .. model
    write(prefix .. 'k' .. id, 'wt', key.waiting)
  end
end

local misfits, misfit_back, parked = 0, nil, 0
local chosen, chosen_view, chosen_key
while not chosen do
  local view, id, key
  for _, v in ipairs(views) do
    local i, k = head(v)
    if i and (not key or k.score < key.score) then view, id, key = v, i, k end
  end
  if lost then
    remove(KEYS[1], 'v')
    return { 0 }
  end
  if not id then break end
  if excluded[id] then
    pass_by(view)
  else
    local what, back = standing(id, key)
    if what == 'usable' then
      chosen, chosen_view, chosen_key = id, view, key
    elseif what == 'misfit' and misfits < tonumber(ARGV[8]) then
      misfits = misfits + 1
      misfit_back = math.min(misfit_back or back, back)
      pass_by(view)
    else
      -- Past the misfits stepped over, the next rest until their oldest second may have left.
      if what == 'misfit' then what, back = FULL, math.min(back, now + SECOND) end
      park(view, id, key, what, back)
      pass_by(view)
      parked = parked + 1
      if parked == 256 then return { 3 } end
    end
  end
end

if not chosen then
  local wait, limited, failing, full = misfit_back and misfit_back - now or nil, 0, 0, misfits
  for _, view in ipairs(views) do
    failing = failing + redis.call('ZCOUNT', view.name, FAILING, '(' .. int(LIMITED))
    limited = limited + redis.call('ZCOUNT', view.name, LIMITED, '(' .. int(FULL))
    full = full + redis.call('ZCOUNT', view.name, FULL, '+inf')
    local busy = redis.call('ZCOUNT', view.name, BUSY, '+inf')
    for id in pairs(excluded) do
      local score = tonumber(redis.call('ZSCORE', view.name, id) or 0)
      if score >= FULL then
        full = full - 1
      elseif score >= LIMITED then
        limited = limited - 1
      elseif score >= FAILING then
        failing = failing - 1
      end
      if score >= BUSY then busy = busy - 1 end
    end
    if busy > 0 then wait = math.min(wait or SECOND, SECOND) end
    for _, band in ipairs({ FAILING, LIMITED, FULL }) do
      local ends = '(' .. int(band + BAND)
      local first = redis.call('ZRANGEBYSCORE', view.name, band, ends, 'WITHSCORES', 'LIMIT', 0, #ARGV - 8)
      for i = 1, #first, 2 do
        local back_ms = tonumber(first[i + 1]) - band
        if not excluded[first[i]] and back_ms < NEVER_MS then
          wait = math.min(wait or back_ms * 1000 - now, back_ms * 1000 - now)
          break
        end
      end
    end
    redis.call('PEXPIRE', view.name, VIEW_MS)
  end
  return { 2, wait and math.max(wait, 0) or -1, limited, failing, full }
end

local used = math.max(tonumber(m[2] or 0), RANK / 1048576) + 1
local leases, hash = prefix .. 'l' .. chosen, prefix .. 'k' .. chosen
add(chosen_key.w, second, second, 1, tokens)
write(hash, 'q', int(used))
write(hash, 'u', int(now))
expire(hash, DAY_MS)
redis.call('ZADD', leases, int(now_ms + math.floor(tonumber(ARGV[7]) / 1000)), ARGV[3])
expire(leases, VIEW_MS)
redis.call('ZADD', chosen_view.name, chosen_key.rank * RANK + used, chosen)
write(KEYS[1], 's', int(used))
write(KEYS[1], 't', int(now))
write(KEYS[1], 'a', int(ahead))
expire(chosen_view.name, VIEW_MS)
expire(KEYS[1], DAY_MS)
return { 1, chosen, second, version, used, chosen_key.score - chosen_key.rank * RANK, tonumber(epoch) }
