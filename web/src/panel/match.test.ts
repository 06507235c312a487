import assert from "node:assert/strict";
import { test } from "node:test";
import { closeness, reasons } from "./match.ts";

test("a memory matches by words or by meaning, and may be recent", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  assert.deepEqual(reasons("Is Rome far?", "I live in ROME.", "2026-01-01T12:00:00Z", now), ["same words: rome", "recent"]);
  assert.deepEqual(reasons("Which city?", "I live in Rome.", "2025-01-01T12:00:00Z", now), ["same meaning"]);
  assert.deepEqual(reasons("", "x", null, now), ["same meaning"]);
});

test("closeness has three words", () => {
  assert.deepEqual([1, 0.6, 0.5, 0.35, 0.1].map(closeness), ["close", "close", "fairly close", "fairly close", "loosely"]);
});
