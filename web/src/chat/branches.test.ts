import assert from "node:assert/strict";
import { test } from "node:test";
import { branchPoints, type Checkpoint } from "./branches.ts";

const start = (id: string, parent: string | null, messages: number): Checkpoint => ({
  checkpoint_id: id, parent_checkpoint_id: parent, next: ["__start__"], messages,
});
const end = (id: string, parent: string, messages: number): Checkpoint => ({
  checkpoint_id: id, parent_checkpoint_id: parent, next: [], messages,
});

// one → two; then two was edited, then one was edited.
const history = [
  end("e4", "s4", 2), start("s4", "s1", 0),
  end("e3", "s3", 4), start("s3", "e1", 2),
  end("e2", "s2", 4), start("s2", "e1", 2),
  end("e1", "s1", 2), start("s1", null, 0),
];

test("the newest branch has one turn, which replaced the first", () => {
  assert.deepEqual(branchPoints(history), [{ messages: 0, base: "s1", tips: ["e3", "e4"], place: 1 }]);
});

test("an earlier branch names its rivals at each turn", () => {
  assert.deepEqual(branchPoints(history, "e2"), [
    { messages: 0, base: "s1", tips: ["e3", "e4"], place: 0 },
    { messages: 2, base: "e1", tips: ["e2", "e3"], place: 0 },
  ]);
});

test("a thread without branches has one tip at each turn", () => {
  assert.deepEqual(branchPoints(history.slice(4)), [
    { messages: 0, base: "s1", tips: ["e2"], place: 0 },
    { messages: 2, base: "e1", tips: ["e2"], place: 0 },
  ]);
});

test("of a long thread only the newest turns are known", () => {
  assert.deepEqual(branchPoints(history.slice(4, 6)), [{ messages: 2, base: "e1", tips: ["e2"], place: 0 }]);
  assert.deepEqual(branchPoints([]), []);
});
