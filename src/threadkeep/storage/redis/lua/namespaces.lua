-- List the namespaces with an unexpired item. KEYS: counts and expiring members of some groups, in turn.
--
-- ARGV: the bound of what has expired.
local found = {}
for i = 1, #KEYS, 2 do
  local counts = redis.call('HGETALL', KEYS[i])
  local left = {}
  for at = 1, #counts, 2 do
    left[counts[at]] = tonumber(counts[at + 1])
  end
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[i + 1], '-', ARGV[1])) do
    local place = string.sub(member, 83)
    local namespace = string.sub(place, 1, string.find(place, '\n', 1, true) - 1)
    left[namespace] = (left[namespace] or 0) - 1
  end
  for namespace, items in pairs(left) do
    if items > 0 then
      found[#found + 1] = namespace
    end
  end
end
return found
