-- Part of a script: whether this is the first time that something counted elsewhere is told.
local function first_told(prefix, id)
  return redis.call('SET', prefix .. 'd' .. id, 1, 'NX', 'PX', SPAN * 1000)
end
