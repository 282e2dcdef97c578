-- The foot of every script: does what was asked, in that order, and writes what has changed. The server's time
-- is the first of the answers, and the only one when nobody waits any more: what is counted then is a slot that
-- nobody gives back.
local answers = { TIME[1] * SECOND + TIME[2] }
if AWAITED_UNTIL > 0 and answers[1] > AWAITED_UNTIL then return cmsgpack.pack(answers) end
for i = 3, #ARGV do
  local asked = cmsgpack.unpack(ARGV[i])
  answers[#answers + 1] = operations[asked[1]](asked)
end
for name, hash in pairs(hashes) do
  for field, w in pairs(hash.windows) do
    if w.changed then
      hash.values[field], hash.changed[field] = cmsgpack.pack(w.list), true
    end
  end
  local changes = {}
  for field in pairs(hash.changed) do
    changes[#changes + 1], changes[#changes + 2] = field, hash.values[field]
  end
  if changes[1] then redis.call('HSET', name, unpack(changes)) end
end
for name, ms in pairs(expiries) do redis.call('PEXPIRE', name, ms) end
return cmsgpack.pack(answers)
