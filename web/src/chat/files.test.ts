import assert from "node:assert/strict";
import { test } from "node:test";
import { addFiles, sharesSent } from "./files.ts";

const file = (name: string, size = 10) => ({ name, size }) as File;

test("a video, a large file and a sixth file are refused by name", () => {
  const { files, refusals } = addFiles(
    [file("1.md"), file("2.md"), file("3.md")],
    [file("film.mp4"), file("big.pdf", 50_000_000), file("4.md"), file("5.md"), file("6.md")],
  );
  assert.deepEqual(files.map((one) => one.name), ["1.md", "2.md", "3.md", "4.md", "5.md"]);
  assert.deepEqual(refusals.map((one) => ["film.mp4", "big.pdf", "6.md"].find((name) => one.includes(name))), ["film.mp4", "big.pdf", "6.md"]);
});

test("what has been sent counts for one file after the other", () => {
  const files = [file("1.md", 100), file("empty.md", 0), file("2.md", 200)];
  assert.deepEqual(sharesSent(files, 0), [0, 1, 0]);
  assert.deepEqual(sharesSent(files, 200), [1, 1, 0.5]);
  assert.deepEqual(sharesSent(files, 400), [1, 1, 1]);
});
