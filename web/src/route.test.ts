import assert from "node:assert/strict";
import { test } from "node:test";
import { chatAddress, memoriesOfThread, memoryAddress, operatorAddress, parseRoute } from "./route.ts";

test("an address leads back to its thread and message, whatever characters they have", () => {
  for (const id of ["a", "a/b", "?x=1#y", "é %2f"]) {
    assert.deepEqual(parseRoute(chatAddress(id, id)), { view: "chat", threadId: id, messageId: id });
  }
  assert.deepEqual(parseRoute(memoryAddress("a/b")), { view: "memory", memoryId: "a/b", threadId: null });
  assert.deepEqual(parseRoute(memoriesOfThread("a/b")), { view: "memory", memoryId: null, threadId: "a/b" });
  assert.deepEqual(parseRoute(operatorAddress("~tk~a~b")), { view: "operator", label: "~tk~a~b" });
  assert.deepEqual(parseRoute("#/inbox"), { view: "inbox" });
  assert.deepEqual(parseRoute("#/"), { view: "chat", threadId: null, messageId: null });
});
