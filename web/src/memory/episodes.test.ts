import assert from "node:assert/strict";
import { test } from "node:test";
import type { Memory } from "../stores/memories.ts";
import { foldMessages, groupEpisodes } from "./episodes.ts";

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

test("messages that follow each other make one row, of at most ten, and a day begins a new one", () => {
  const row = (memory_id: string, kind: Memory["kind"], day: string | null = null) => ({ ...shown(memory_id, kind), episodes: [], day });
  const list = [row("a", "episodic", "Monday"), row("b", "episodic"), row("rome", "semantic"), row("c", "episodic"), row("d", "episodic", "Sunday")];
  const folded = foldMessages(list).map((one) => [one.day, one.memory?.memory_id ?? null, ...one.episodes.map((episode) => episode.memory_id)]);
  assert.deepEqual(folded, [
    ["Monday", null, "a", "b"],
    [null, "rome"],
    [null, null, "c"],
    ["Sunday", null, "d"],
  ]);
  const many = foldMessages(Array.from({ length: 25 }, (_, number) => row(`${number}`, "episodic")));
  assert.deepEqual(many.map((one) => one.episodes.length), [10, 10, 5]);
});
