-- The head of every script. A call names an owner's main key, what to add to the server's time, until when
-- of the server's time somebody waits for it (0: for ever), and some operations on the owner's keys, each
-- packed as its name and arguments: its ARGV. What each gives back comes
-- in one packed list. Times are microseconds; windows are flat lists of (second, requests, tokens), oldest first;
-- limits below zero mean none.
local TIME, OFFSET, AWAITED_UNTIL = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[2])
local SPAN = 62
local SECOND = 1000000
-- A view is one sorted set. Ready keys score by priority and last use, below PARKED; parked ones by
-- the millisecond at which they come back, in one band for each reason: in cooldown for a failure or
-- for the provider's limit, a window full, no free slot. All below 2^52: exact.
local RANK = 1099511627776 -- 2^40
local PARKED = 2251799813685248 -- 2^51
local BAND = 562949953421312 -- 2^49
local FAILING, LIMITED, FULL, BUSY = PARKED, PARKED + BAND, PARKED + 2 * BAND, PARKED + 3 * BAND
local DAY_MS, VIEW_MS, TENANT_MS = 86400000, 7200000, 1200000
local NEVER_MS = 100000000000000

-- A number as Redis takes it, each written once a call: writing one takes longer than most commands.
local texts = {}

local function int(x)
  local text = texts[x]
  if not text then
    text = string.format('%.0f', x)
    texts[x] = text
  end
  return text
end

-- What a call reads and changes of its hashes: read once and written once, by the foot, however many
-- operations there are. Values are strings as Redis gives them, false where there is none. An operation that
-- goes around this is the only one of its call.
local hashes, expiries = {}, {}

local function hash_of(name)
  local hash = hashes[name]
  if not hash then
    hash = { values = {}, changed = {}, windows = {} }
    hashes[name] = hash
  end
  return hash
end

local function read(name, fields)
  local values, unknown = hash_of(name).values, {}
  for _, field in ipairs(fields) do
    if values[field] == nil then unknown[#unknown + 1] = field end
  end
  if unknown[1] then
    local got = redis.call('HMGET', name, unpack(unknown))
    for i, field in ipairs(unknown) do values[field] = got[i] end
  end
  local list = {}
  for i, field in ipairs(fields) do list[i] = values[field] end
  return list
end

local function write(name, field, value)
  local hash = hash_of(name)
  hash.values[field], hash.changed[field] = value, true
end

local function remove(name, field)
  local hash = hash_of(name)
  hash.values[field], hash.changed[field] = false, nil
  redis.call('HDEL', name, field)
end

-- A key lives so long from now on.
local function expire(name, ms)
  expiries[name] = ms
end

-- Time that never goes back: a step back is waited out below a second, else made up for.
local function clock(latest, ahead)
  latest, ahead = tonumber(latest or 0), tonumber(ahead or 0)
  local us = TIME[1] * SECOND + TIME[2] + OFFSET + ahead
  if us < latest then
    if us < latest - SECOND then
      ahead = ahead + latest - us
      write(KEYS[1], 't', int(latest))
      write(KEYS[1], 'a', int(ahead))
    end
    us = latest
  end
  return us, ahead
end

local function window(packed, second)
  local kept, requests, tokens = {}, 0, 0
  if packed then
    local w = cmsgpack.unpack(packed)
    local n = 0
    for i = 1, #w, 3 do
      if w[i] > second - SPAN then
        kept[n + 1], kept[n + 2], kept[n + 3] = w[i], w[i + 1], w[i + 2]
        n = n + 3
        requests, tokens = requests + w[i + 1], tokens + w[i + 2]
      end
    end
  end
  return { list = kept, requests = requests, tokens = tokens }
end

-- The window in a field; `add` to it and it is written.
local function window_in(name, field, second)
  local windows = hash_of(name).windows
  if not windows[field] then windows[field] = window(read(name, { field })[1], second) end
  return windows[field]
end

-- Adds, or with negative numbers takes back, in the bucket of a second.
local function add(w, second, now_second, requests, tokens)
  if second <= now_second - SPAN or second > now_second then return end
  local list = w.list
  local i = #list - 2
  while i >= 1 and list[i] > second do i = i - 3 end
  if i < 1 or list[i] ~= second then
    if requests <= 0 and tokens <= 0 then return end
    i = i + 3
    table.insert(list, i, 0)
    table.insert(list, i, 0)
    table.insert(list, i, second)
  end
  requests, tokens = math.max(requests, -list[i + 1]), math.max(tokens, -list[i + 2])
  list[i + 1], list[i + 2] = list[i + 1] + requests, list[i + 2] + tokens
  w.requests, w.tokens, w.changed = w.requests + requests, w.tokens + tokens, true
end

-- Whether these are not the counters that a call must find: those of an epoch, of any epoch (0), or of
-- any and perhaps none yet (-1).
local function missing(epoch, expected)
  if expected == '-1' then return false end
  return not epoch or (expected ~= '0' and expected ~= epoch)
end

-- The second of something that was counted elsewhere: ours, or below zero how long ago it was, less one.
-- The seconds of two clocks do not begin together, so it may stay one longer, but it is not of the future.
local function second_of(given, second)
  given = tonumber(given)
  if given >= 0 then return given end
  return math.min(second, second + given + 2)
end

-- When another request has room; nil: now.
local function room_for_request(w, limit, now)
  if limit < 0 or (limit > 0 and w.requests < limit) then return nil end
  if limit == 0 then return now + 60 * SECOND end
  local requests, list = w.requests, w.list
  for i = 1, #list, 3 do
    requests = requests - list[i + 1]
    if requests < limit then return (list[i] + SPAN) * SECOND end
  end
end

-- When some more tokens have room; nil: now. An empty window has room for any number.
local function room_for_tokens(w, limit, tokens, now)
  if limit < 0 then return nil end
  if limit == 0 then return now + 60 * SECOND end
  if w.tokens == 0 or w.tokens + tokens <= limit then return nil end
  local sum, list = w.tokens, w.list
  for i = 1, #list, 3 do
    sum = sum - list[i + 2]
    if sum == 0 or sum + tokens <= limit then return (list[i] + SPAN) * SECOND end
  end
end

-- A cooldown: until, failures in a row, reason, whether that is the provider's limit. Gives until when
-- it is in force, and the band of a key that it parks.
local function in_force(packed, now)
  if not packed then return nil end
  local cooled = cmsgpack.unpack(packed)
  if cooled[1] > now then return cooled[1], cooled[4] and LIMITED or FAILING end
end
