import assert from "node:assert/strict";
import { test } from "node:test";
import { groupByDay } from "./days.ts";

const thread = (thread_id: string, at: Date | null, pinned = false) =>
  ({ thread_id, title: thread_id, status: "idle", pinned, created_at: null, last_turn_at: at?.toISOString() ?? null }) as const;

test("pinned ones come first, then the days, in the order of the list", () => {
  const now = new Date(2026, 4, 10, 9).getTime();
  const groups = groupByDay(
    [thread("new", null), thread("a", new Date(2026, 4, 10, 1)), thread("b", new Date(2026, 4, 9, 23)), thread("p", new Date(2020, 1, 1), true)],
    now,
  );
  assert.deepEqual(groups.map((one) => [one.label, one.threads.map((two) => two.thread_id)]), [
    ["Pinned", ["p"]], ["Today", ["new", "a"]], ["Yesterday", ["b"]],
  ]);
});
