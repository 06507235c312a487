-- Give the next items of a partition in the order of a scan.
--
-- KEYS: items, order. ARGV: ZRANGEBYLEX or ZREVRANGEBYLEX, its two bounds; what the namespace has to be, and what it may
-- begin with instead; now; most rows; most members to look at; most bytes, roughly.
--
-- Returns the last member looked at, or "" at the end; lengths of each row's mark, place and body; texts that they are
-- cut from once joined.
local ITEMS, ORDER = KEYS[1], KEYS[2]
local command, from, to, whole, beginning, now = unpack(ARGV, 1, 6)
local most_rows, most_members, most_bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local STEP = 128

local lengths, texts, rows, looked, bytes, last = {}, {}, 0, 0, 0, ''
while true do
  local members = redis.call(command, ORDER, from, to, 'LIMIT', 0, STEP)
  for i, member in ipairs(members) do
    local place = string.sub(member, 35)
    local namespace = string.sub(place, 1, string.find(place, '\n', 1, true) - 1)
    last = member
    if namespace == whole or string.sub(namespace, 1, #beginning) == beginning then
      local mark = redis.call('HGET', ITEMS, 'm' .. place)
      if string.sub(mark, 53, 70) > now then
        local body = redis.call('HGET', ITEMS, 'b' .. place)
        texts[#texts + 1] = mark .. place .. body
        lengths[#lengths + 1] = #mark .. ' ' .. #place .. ' ' .. #body
        rows = rows + 1
        bytes = bytes + #mark + #place + #body
        if rows >= most_rows or bytes >= most_bytes then
          return {last, table.concat(lengths, ' '), texts}
        end
      end
    end
  end
  looked = looked + #members
  if #members < STEP then
    return {'', table.concat(lengths, ' '), texts}
  end
  if looked >= most_members then
    return {last, table.concat(lengths, ' '), texts}
  end
  from = '(' .. last
end
