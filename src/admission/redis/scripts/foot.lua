-- The foot of every script: does what was asked, in that order.
local answers = {}
for i = 2, #ARGV do
  local asked = cmsgpack.unpack(ARGV[i])
  answers[#answers + 1] = operations[asked[1]](asked)
end
return answers
