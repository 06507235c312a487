import assert from "node:assert/strict";
import { test } from "node:test";
import type { Memory } from "../stores/memories.ts";
import { groupEpisodes } from "./episodes.ts";

function shown(memory_id: string, kind: Memory["kind"], ...messages: string[]) {
  const sources = messages.map((message_id) => ({ speaker: "user", thread_id: "t", message_id, at: null }));
  return { memory: { memory_id, kind, sources } as unknown as Memory, score: null };
}

const names = (list: ReturnType<typeof groupEpisodes>) => list.map((one) => [one.memory.memory_id, ...one.episodes.map((episode) => episode.memory_id)]);

test("an episode stands below the first fact of its message, wherever both are in the list", () => {
  const list = [shown("said", "episodic", "m1"), shown("rome", "semantic", "m1"), shown("jazz", "semantic", "m1"), shown("asked", "episodic", "m2")];
  assert.deepEqual(names(groupEpisodes(list)), [["rome", "said"], ["jazz"], ["asked"]]);
});

test("memories without a message, and episodes alone, stay as they are", () => {
  const list = [shown("added", "semantic"), shown("one", "episodic", "m1"), shown("two", "episodic", "m2")];
  assert.deepEqual(names(groupEpisodes(list)), [["added"], ["one"], ["two"]]);
});
