import assert from "node:assert/strict";
import { test } from "node:test";
import { columns, shares } from "./scales.ts";

test("shares are percents of the largest value", () => {
  assert.deepEqual(shares([1, 4, 0]), [25, 100, 0]);
  assert.deepEqual(shares([0, 0]), [0, 0]);
  assert.deepEqual(shares([]), []);
});

test("columns stay in the chart, side by side, the last one at its right edge", () => {
  for (const count of [1, 2, 14, 90]) {
    const places = columns(Array.from({ length: count }, (_, index) => index + 1));
    assert.equal(places.length, count);
    const last = places.at(-1);
    assert.ok(last !== undefined && Math.abs(last.left + last.width - 100) < 1e-9);
    assert.ok(places.every((place, index) => place.left >= (index === 0 ? 0 : (places[index - 1]?.left ?? 0) + (places[index - 1]?.width ?? 0))));
  }
});
