-- Return what happened to the searchable items of a partition, a part at a time.
--
-- KEYS: heads, items, searchable, removed. ARGV: digest; the epoch asked about or ""; the sequence asked about, or at
-- which an earlier part was read; the last member of that part or ""; most rows of a part; most bytes, roughly.
--
-- Returns {} where the partition was never written; else epoch, sequence, "1" for a reset, last member or "" at the
-- end, lengths of each row's mark, place and body, texts that they are cut from once joined, removals with their
-- revisions. Where a reset comes after another part, that one is worth nothing: begin anew.
--
-- The rows are joined a few at a time: a text of megabytes costs Lua half as much again, and one text for each row
-- costs the reader five times as much.
local HEADS, ITEMS, SEARCHABLE, REMOVED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local digest, epoch, since, last = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local most_rows, most_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local STEP = 32

local text = redis.call('HGET', HEADS, digest)
if not text then
  return {}
end
local now_epoch, sequence, floor = string.match(text, '^(%S+) (%d+) (%d+)')
local reset = epoch ~= now_epoch or since < tonumber(floor) or since > tonumber(sequence)
local start = '-'
if not reset then
  start = last ~= '' and '(' .. last or '[' .. string.format('%016.0f', since + 1)
elseif last ~= '' then
  return {now_epoch, sequence, '1', '', '', {}, {}}
end

local members = redis.call('ZRANGEBYLEX', SEARCHABLE, start, '+', 'LIMIT', 0, most_rows)
local lengths, texts, bytes, read = {}, {}, 0, 0
while read < #members and bytes < most_bytes do
  local fields = {}
  local stop = math.min(read + STEP, #members)
  for i = read + 1, stop do
    local place = string.sub(members[i], 17)
    fields[#fields + 1] = 'm' .. place
    fields[#fields + 1] = 'b' .. place
  end
  local parts = {}
  local values = redis.call('HMGET', ITEMS, unpack(fields))
  for i = read + 1, stop do
    local mark, place, body = values[2 * (i - read) - 1], string.sub(members[i], 17), values[2 * (i - read)]
    parts[#parts + 1] = mark
    parts[#parts + 1] = place
    parts[#parts + 1] = body
    lengths[#lengths + 1] = #mark .. ' ' .. #place .. ' ' .. #body
    bytes = bytes + #mark + #place + #body
  end
  texts[#texts + 1] = table.concat(parts)
  read = stop
end
local more = read < #members or #members == most_rows
local removals = {}
if not more and not reset then
  removals = redis.call('ZRANGEBYSCORE', REMOVED, '(' .. string.format('%.0f', since), '+inf', 'WITHSCORES')
end
return {
  now_epoch, sequence, reset and '1' or '0', more and members[read] or '',
  table.concat(lengths, ' '), texts, removals,
}
