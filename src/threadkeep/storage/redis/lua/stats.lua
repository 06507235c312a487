-- Count partitions and items. KEYS: partitions and namespaces of some groups, in turn.
local partitions, items = 0, 0
for i = 1, #KEYS, 2 do
  partitions = partitions + redis.call('ZCARD', KEYS[i])
  for _, count in ipairs(redis.call('HVALS', KEYS[i + 1])) do
    items = items + tonumber(count)
  end
end
return {partitions, items}
