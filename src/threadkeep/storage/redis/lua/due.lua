-- Find due work. KEYS: the due indexes of some groups.
--
-- ARGV: the bounds of the kind's members up to now, the length of the kind, now, how many. Returns members, the longest
-- due first.
local from, to, kind, now, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local STEP = 256
local DUE = kind + 2 -- where the 18 digits of the moment begin, behind the newline

local found = {}
for _, key in ipairs(KEYS) do
  local start, here = from, 0
  while here < limit do
    local members = redis.call('ZRANGEBYLEX', key, start, to, 'LIMIT', 0, STEP)
    for _, member in ipairs(members) do
      if here < limit and string.sub(member, DUE + 18, DUE + 35) > now then
        here = here + 1
        found[#found + 1] = member
      end
    end
    if #members < STEP then
      break
    end
    start = '(' .. members[#members]
  end
end
if #found > limit then
  table.sort(found, function(one, other)
    return string.sub(one, DUE, DUE + 17) < string.sub(other, DUE, DUE + 17)
  end)
  for i = #found, limit + 1, -1 do
    found[i] = nil
  end
end
return found
