import assert from "node:assert/strict";
import { test } from "node:test";
import { chatAddress, parseRoute } from "./route.ts";

test("an address leads back to its thread and message, whatever characters they have", () => {
  for (const id of ["a", "a/b", "?x=1#y", "é %2f"]) {
    assert.deepEqual(parseRoute(chatAddress(id, id)), { view: "chat", threadId: id, messageId: id });
  }
  assert.deepEqual(parseRoute("#/"), { view: "chat", threadId: null, messageId: null });
});
