import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { diffWords } from "./diff.ts";

const words = fc.array(fc.constantFrom("a", "b", "c", " ", "\n"), { maxLength: 20 }).map((parts) => parts.join(""));

test("a difference has both texts, whole and in order", () => {
  fc.assert(
    fc.property(words, words, (before, after) => {
      const pieces = diffWords(before, after);
      const side = (kind: string) => pieces.filter((one) => one.kind === "same" || one.kind === kind).map((one) => one.text).join("");
      assert.equal(side("removed"), before);
      assert.equal(side("added"), after);
    }),
  );
});

test("what both texts have stays", () => {
  assert.deepEqual(diffWords("I live in Rome.", "I live in Oslo."), [
    { kind: "same", text: "I live in " },
    { kind: "removed", text: "Rome." },
    { kind: "added", text: "Oslo." },
  ]);
});
