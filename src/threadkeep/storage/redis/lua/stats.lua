-- Count partitions and items, of the groups whose keys are KEYS: partitions and namespaces in turn.
local partitions, items = 0, 0
for i = 1, #KEYS, 2 do
  partitions = partitions + redis.call('ZCARD', KEYS[i])
  for _, count in ipairs(redis.call('HVALS', KEYS[i + 1])) do
    items = items + tonumber(count)
  end
end
return {partitions, items}
