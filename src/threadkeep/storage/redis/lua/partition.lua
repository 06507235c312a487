-- What the scripts that write one partition share. All of a script's keys lie in one hash slot.
--
-- KEYS of a script that writes, in this order:
local HEADS, PARTITIONS, NAMESPACES, DUE, EXPIRING = unpack(KEYS, 1, 5) -- of the group
local ITEMS, ORDER, SEARCHABLE, REMOVED, TOKEN = unpack(KEYS, 6, 10) -- of the partition, and of this call
--
-- A place is an encoded namespace, a newline and an encoded key. ITEMS holds two fields for each: "m" and the
-- place is its mark, "b" and the place its body, which no script looks into. A mark is of fixed width, digits
-- that sort as texts do, and ends with the kind of work that is due:
--
--    1-16 revision   17-34 created   35-52 updated   53-70 expires   71 searchable   72-89 due   90-107 ttl   108- kind
--
-- Moments are microseconds since 1970 plus 10^17; 999999999999999999 is never.
--
-- PARTITIONS, DUE, EXPIRING, ORDER and SEARCHABLE are sorted sets whose members sort by their text, all with score 0.
-- REMOVED holds places by the revision at which they ceased to be searchable. NAMESPACES counts the items of each.
-- TOKEN keeps the result of this call for a while, so that a client whose reply was lost can send the call again: the
-- second run finds the result and writes nothing. It is a key of its own and expires by the server's clock.
local LEAP = 1048576 -- 2^20
local MANY = 1000 -- arguments of one call; Lua's stack holds 8,000

local function namespace_of(place)
  return string.sub(place, 1, string.find(place, '\n', 1, true) - 1)
end

local function revision_text(number)
  return string.format('%016.0f', number)
end

-- Return the id of the server's run; "-" if the user may not read it.
local function running()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
end

-- Read the head of a partition: epoch, sequence, floor of the change log, run, spelling. Nil: there is none.
--
-- A server that was started again, or took over from another, may have lost the last commits that it or the other
-- had acknowledged, and clients may have read their revisions. So in a new run the sequence leaps over all that may
-- have been, and the change log begins anew: no revision is used twice, and followers are reset.
local function read_head(digest, run)
  local text = redis.call('HGET', HEADS, digest)
  if not text then
    return nil
  end
  local epoch, sequence, floor, seen, spelling = string.match(text, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
  local head = {epoch = epoch, sequence = tonumber(sequence), floor = tonumber(floor), run = seen, spelling = spelling}
  if run ~= '-' then
    if seen ~= '-' and run ~= seen then
      head.sequence = head.sequence + LEAP
      head.floor = head.sequence
    end
    head.run = run
  end
  return head
end

local function write_head(digest, head)
  redis.call('HSET', HEADS, digest, string.format(
    '%s %.0f %.0f %s %s', head.epoch, head.sequence, head.floor, head.run, head.spelling))
end

-- Return what forbids writing, before anything is written; nil: nothing does. What is left is memory and disk, which
-- the server checks at the first command that writes and never after it.
local function forbidden()
  local call, check = redis.call, redis.acl_check_cmd
  call('HLEN', NAMESPACES) -- a key of another type raises here
  call('HLEN', ITEMS)
  call('ZCARD', PARTITIONS)
  call('ZCARD', DUE)
  call('ZCARD', EXPIRING)
  call('ZCARD', ORDER)
  call('ZCARD', SEARCHABLE)
  call('ZCARD', REMOVED)
  local command = check and (
    not check('HSET', ITEMS, '0', '0') and 'hset' or not check('HDEL', ITEMS, '0') and 'hdel'
    or not check('HINCRBY', ITEMS, '0', '1') and 'hincrby' or not check('ZADD', ITEMS, '0', '0') and 'zadd'
    or not check('ZREM', ITEMS, '0') and 'zrem' or not check('UNLINK', ITEMS) and 'unlink'
    or not check('ZREMRANGEBYSCORE', ITEMS, '0', '0') and 'zremrangebyscore' or not check('SET', ITEMS, '0') and 'set')
  if command then
    return redis.error_reply("NOPERM this user has no permissions to run the '" .. command .. "' command")
  end
  return nil
end

-- Keep *result*, a text, under this call's token for *milliseconds*.
local function keep_result(result, milliseconds)
  redis.call('SET', TOKEN, result, 'PX', milliseconds)
end

-- Call *command* on *key* with all of *arguments*, many at once.
local function with_all(command, key, arguments)
  for first = 1, #arguments, MANY do
    redis.call(command, key, unpack(arguments, first, math.min(first + MANY - 1, #arguments)))
  end
end

-- Return the marks at *places*, false where there is nothing.
local function marks_at(places)
  local marks = {}
  for first = 1, #places, MANY do
    local fields = {}
    for i = first, math.min(first + MANY - 1, #places) do
      fields[#fields + 1] = 'm' .. places[i]
    end
    for _, mark in ipairs(redis.call('HMGET', ITEMS, unpack(fields))) do
      marks[#marks + 1] = mark
    end
  end
  return marks
end

-- Return an empty plan of writes. They are collected first, so that nothing is written before everything was checked.
local function new_plan()
  return {
    set = {}, unset = {}, count = {},
    add = {[DUE] = {}, [EXPIRING] = {}, [ORDER] = {}, [SEARCHABLE] = {}, [REMOVED] = {}},
    drop = {[DUE] = {}, [EXPIRING] = {}, [ORDER] = {}, [SEARCHABLE] = {}},
  }
end

local function append(members, member, scored)
  if scored then
    members[#members + 1] = '0'
  end
  members[#members + 1] = member
end

-- Add to *into* the members of the group's indexes for the item with *mark* at *place*.
local function index_shared(into, digest, place, mark, scored)
  local expires, due = string.sub(mark, 53, 70), string.sub(mark, 72, 89)
  if expires ~= '999999999999999999' then
    append(into[EXPIRING], expires .. digest .. place, scored)
  end
  if due ~= '999999999999999999' then
    append(into[DUE], string.sub(mark, 108) .. '\n' .. due .. expires .. digest .. place, scored)
  end
end

-- The same for the partition's own indexes, too.
local function index(into, digest, place, mark, scored)
  local revision = string.sub(mark, 1, 16)
  append(into[ORDER], string.sub(mark, 35, 52) .. revision .. place, scored)
  if string.sub(mark, 71, 71) == '1' then
    append(into[SEARCHABLE], revision .. place, scored)
  end
  index_shared(into, digest, place, mark, scored)
end

local function plan_count(plan, place, by)
  local namespace = namespace_of(place)
  plan.count[namespace] = (plan.count[namespace] or 0) + by
end

-- Apply *plan*. Its first command is one that needs memory where the plan has any such, so that a full server refuses
-- it before it has changed anything. A plan that only removes is let through, and so is one that forgets: that takes
-- something out of what is searched and adds nothing to it, though it writes down that it did.
local function apply(plan)
  local forgets = plan.forgets and not plan.teaches
  if forgets then
    with_all('HDEL', ITEMS, plan.unset)
  end
  with_all('HSET', ITEMS, plan.set)
  if not forgets then
    with_all('HDEL', ITEMS, plan.unset)
  end
  for key, members in pairs(plan.drop) do
    with_all('ZREM', key, members)
  end
  for key, members in pairs(plan.add) do
    with_all('ZADD', key, members)
  end
  for namespace, by in pairs(plan.count) do
    if by ~= 0 and redis.call('HINCRBY', NAMESPACES, namespace, by) <= 0 then
      redis.call('HDEL', NAMESPACES, namespace)
    end
  end
end
