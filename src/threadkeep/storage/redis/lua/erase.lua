-- Remove everything of a partition but its digest, a new epoch and the sequence.
--
-- ARGV: digest, new epoch, milliseconds to keep the result. Returns how many items there were.
local digest, epoch, keep = ARGV[1], ARGV[2], ARGV[3]
local known = redis.call('GET', TOKEN)
if known then
  return tonumber(known)
end
local run = running()
local head = read_head(digest, run) or {sequence = 0, run = run}
local items = redis.call('ZCARD', ORDER)

-- Only what the partition shares with others of its slot has to be taken apart; its own keys go whole.
local plan = new_plan()
plan.drop = {[DUE] = {}, [EXPIRING] = {}}
for first = 0, items - 1, MANY do
  local places = {}
  for i, member in ipairs(redis.call('ZRANGE', ORDER, first, first + MANY - 1)) do
    places[i] = string.sub(member, 35)
  end
  for i, mark in ipairs(marks_at(places)) do
    index_shared(plan.drop, digest, places[i], mark, false)
    plan_count(plan, places[i], -1)
  end
end

local refusal = forbidden()
if refusal then
  return refusal
end
redis.call('UNLINK', ITEMS, ORDER, SEARCHABLE, REMOVED) -- needs no memory, so a full server lets it through
apply(plan)
redis.call('ZREM', PARTITIONS, digest)
write_head(digest, {epoch = epoch, sequence = head.sequence, floor = head.sequence, run = head.run, spelling = ''})
keep_result(items, keep)
return items
