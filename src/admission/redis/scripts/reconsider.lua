-- Part of a script: gives a parked key another look in the views of some models.
local function reconsider(prefix, version, id, models)
  local k = read(prefix .. 'k' .. id, { 'r', 'q', 'o' })
  if not version or not k[1] then return end
  local score = tonumber(k[1]) * RANK + tonumber(k[2])
  for _, model in ipairs(models) do
    local view = prefix .. 'r' .. version .. ':' .. k[3] .. model
    local at = redis.call('ZSCORE', view, id)
    if at and tonumber(at) >= PARKED then redis.call('ZADD', view, int(score), id) end
  end
end
