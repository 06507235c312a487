import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { markWords } from "./mark-words.ts";

test("the pieces are the whole text, and the shared words are marked", () => {
  fc.assert(fc.property(fc.string(), fc.string(), (text, statement) => assert.equal(markWords(text, statement).map((one) => one.text).join(""), text)));
  assert.deepEqual(markWords("We sell in Rome, too.", "The shop is in ROME."), [
    { text: "We sell in ", marked: false },
    { text: "Rome", marked: true },
    { text: ", too.", marked: false },
  ]);
});
