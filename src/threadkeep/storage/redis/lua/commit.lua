-- Check a batch and write it: all or nothing, in one step.
--
-- ARGV: a head, then three for each operation: change, place, body. The head has the digest, the expected epoch or "-",
-- the epoch of partitions that were never erased, the runs in which that was read, now, the rows of the change log,
-- milliseconds to keep the result, and the spelling of the partition, or nothing to keep what is there.
--
-- A change is a letter, 18 digits, an expectation of 16 characters and a put's mark from its 35th column on. The letters:
-- p puts, d deletes, t touches, x deletes what has expired. The digits are when a put's item was created, or never. The
-- expectation is "any", "absent" or 16 digits.
--
-- Returns a status: "done", epoch, sequence, operations that changed something; "conflict", index of the operation, its
-- item's revision or "-"; "erased"; or "unborn", run: look up the epoch anew.
local NEVER, ANY, ABSENT = '999999999999999999', 'any             ', 'absent          '
local FIRST, WIDTH = 2, 3
local digest, wanted, birth, runs, now, rows, keep, spelling = string.match(
  ARGV[1], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')

local known = redis.call('GET', TOKEN)
if known then
  return {ok = known}
end

-- Add two numbers of 18 digits, which are too large for Lua's.
local function plus(one, other)
  local low = tonumber(string.sub(one, 10)) + tonumber(string.sub(other, 10))
  local carry = math.floor(low / 1000000000)
  local high = tonumber(string.sub(one, 1, 9)) + tonumber(string.sub(other, 1, 9)) + carry
  return string.format('%09.0f%09.0f', high, low - carry * 1000000000)
end

local run = running()
local head = read_head(digest, run)
if not head then
  if not string.find(runs, run, 1, true) then
    return {ok = 'unborn ' .. run}
  end
  head = {epoch = birth, sequence = 0, floor = 0, run = run, spelling = ''}
end
if wanted ~= '-' and wanted ~= head.epoch then
  return {ok = 'erased'}
end
local nameless = head.spelling == '' and spelling ~= ''
if nameless then
  head.spelling = spelling
end
head.sequence = head.sequence + 1

local places = {}
for i = FIRST, #ARGV, WIDTH do
  places[#places + 1] = ARGV[i + 1]
end
local marks = marks_at(places)
local revision = revision_text(head.sequence)
local plan = new_plan()
local changed = 0

local function log(place)
  local removed = plan.add[REMOVED]
  removed[#removed + 1] = string.format('%.0f', head.sequence)
  removed[#removed + 1] = place
end

local function remove(place, mark)
  changed = changed + 1
  plan.unset[#plan.unset + 1] = 'm' .. place
  plan.unset[#plan.unset + 1] = 'b' .. place
  index(plan.drop, digest, place, mark, false)
  plan_count(plan, place, -1)
  if string.sub(mark, 71, 71) == '1' then
    plan.forgets = true
    log(place)
  end
end

for i, place in ipairs(places) do
  local at = FIRST + (i - 1) * WIDTH
  local change, old = ARGV[at], marks[i]
  local letter, expected = string.sub(change, 1, 1), string.sub(change, 20, 35)
  local alive = old and string.sub(old, 53, 70) > now
  local found = alive and string.sub(old, 1, 16) or ABSENT
  if expected ~= ANY and expected ~= found then
    return {ok = 'conflict ' .. i .. ' ' .. (alive and found or '-')}
  end
  if letter == 'p' then
    local created = string.sub(change, 2, 19)
    if created == NEVER then
      created = alive and string.sub(old, 17, 34) or now
    end
    local mark = revision .. created .. string.sub(change, 36)
    plan.teaches = plan.teaches or string.sub(mark, 71, 71) == '1'
    changed = changed + 1
    plan.set[#plan.set + 1] = 'm' .. place
    plan.set[#plan.set + 1] = mark
    plan.set[#plan.set + 1] = 'b' .. place
    plan.set[#plan.set + 1] = ARGV[at + 2]
    index(plan.add, digest, place, mark, true)
    if old then
      index(plan.drop, digest, place, old, false)
      if string.sub(old, 71, 71) == '1' and string.sub(mark, 71, 71) == '0' then
        log(place)
      end
    else
      plan_count(plan, place, 1)
    end
  elseif letter == 't' then
    if alive then
      local ttl, expires = string.sub(old, 90, 107), NEVER
      if tonumber(ttl) > 0 then
        expires = plus(now, ttl)
      end
      local mark = revision .. string.sub(old, 17, 52) .. expires .. string.sub(old, 71)
      changed = changed + 1
      plan.set[#plan.set + 1] = 'm' .. place
      plan.set[#plan.set + 1] = mark
      index(plan.drop, digest, place, old, false)
      index(plan.add, digest, place, mark, true)
    end
  elseif old and (letter == 'd' or not alive) then
    remove(place, old)
  end
end

if string.sub(ARGV[FIRST], 1, 1) == 'x' and changed == 0 then
  return {ok = string.format('done %s %.0f 0', head.epoch, head.sequence - 1)}
end
local refusal = forbidden()
if refusal then
  return refusal
end
apply(plan)
local surplus = redis.call('ZCARD', REMOVED) - tonumber(rows)
if surplus > 0 then
  head.floor = tonumber(redis.call('ZRANGE', REMOVED, surplus - 1, surplus - 1, 'WITHSCORES')[2])
  redis.call('ZREMRANGEBYSCORE', REMOVED, '-inf', string.format('%.0f', head.floor))
end
if nameless then
  redis.call('ZADD', PARTITIONS, 0, digest)
end
write_head(digest, head)
local result = string.format('done %s %.0f %.0f', head.epoch, head.sequence, changed)
keep_result(result, keep)
return {ok = result}
