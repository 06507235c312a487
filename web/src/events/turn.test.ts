import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { applyEvent, newTurn, replyText, type Turn } from "./turn.ts";
import { parseRunEvent, type RunEvent } from "./types.ts";

const text = fc.string({ maxLength: 8 });
const message = fc.constantFrom("m1", "m2");
const call = fc.constantFrom("c1", "c2", "c3");
const memory = fc.record({ memory_id: text, text, kind: fc.constant("semantic") });

const middle = fc.oneof(
  fc.record({ kind: fc.constant("token" as const), data: fc.record({ text, message_id: message }) }),
  fc.record({ kind: fc.constant("tool_call" as const), data: fc.record({ id: call, name: text, args: fc.jsonValue() }) }),
  fc.record({ kind: fc.constant("tool_result" as const), data: fc.record({ id: call, name: text, status: text, text }) }),
  fc.record({ kind: fc.constant("interrupt" as const), data: fc.record({ interrupts: fc.array(fc.record({ id: text, value: fc.jsonValue() })) }) }),
  fc.record({ kind: fc.constant("memory_written" as const), data: memory }),
  fc.record({ kind: fc.constant("policy" as const), data: fc.constant({}) }),
);

/** A whole stream: `run`, anything, `done`, and what is learnt afterwards. */
const stream = fc.tuple(fc.array(middle, { maxLength: 30 }), fc.array(memory, { maxLength: 3 })).map(([between, learnt]) => {
  const about = { run_id: "r", thread_id: "t" };
  const kinds = [
    { kind: "run", data: about },
    ...between,
    { kind: "done", data: { ...about, status: "done", message_ids: ["m1"], recorded: true } },
    ...learnt.map((data) => ({ kind: "memory_written", data })),
  ];
  return kinds.map((one, place) => ({ runId: "r", number: place + 1, ...one }) as RunEvent);
});

/** A stream, and the same events as a bad network delivers them: some twice, in any order. */
const delivered = stream.chain((events) =>
  fc.tuple(
    fc.constant(events),
    fc.subarray(events).chain((doubled) => fc.shuffledSubarray([...events, ...doubled], { minLength: events.length + doubled.length })),
  ),
);

const play = (events: readonly RunEvent[], turn: Turn = newTurn) => events.reduce(applyEvent, turn);

test("doubled and reordered events give the state of the whole stream", () => {
  fc.assert(fc.property(delivered, ([events, arrived]) => assert.deepEqual(play(arrived), play(events))), { numRuns: 500 });
});

test("a stream that was cut goes on from the last event that was applied", () => {
  fc.assert(
    fc.property(stream, fc.nat(), fc.nat(), (events, first, overlap) => {
      const cut = first % (events.length + 1);
      const before = play(events.slice(0, cut));
      assert.equal(before.last, cut);
      const rejoined = events.slice(Math.max(0, before.last - (overlap % 5)));
      assert.deepEqual(play(rejoined, before), play(events));
    }),
    { numRuns: 500 },
  );
});

test("events of another run change nothing", () => {
  fc.assert(
    fc.property(stream, (events) => {
      const turn = play(events);
      const others = events.map((event) => ({ ...event, runId: "other", number: event.number + events.length }));
      assert.deepEqual(play(others, turn), turn);
    }),
  );
});

test("a reset replaces what it stands for, and what follows is applied once", () => {
  fc.assert(
    fc.property(stream, fc.nat(), (events, at) => {
      const number = 1 + (at % events.length);
      const messages = [{ role: "user", text: "Hi", message_id: "u" }];
      const reset: RunEvent = {
        runId: "r", number, kind: "reset", data: { run_id: "r", thread_id: "t", status: "running", messages },
      };
      const later = events.filter((event) => event.number > number);
      const turn = play([...events.slice(0, number), reset, reset, ...later, ...events]);
      const { parts, last } = play([reset, ...later]);
      assert.deepEqual({ parts: turn.parts, last: turn.last }, { parts, last });
      assert.equal(turn.last, events.length);
      assert.deepEqual(turn.reset, messages);
    }),
  );
});

test("the text of a reply is its tokens, in their order", () => {
  fc.assert(
    fc.property(stream, (events) => {
      const tokens = events.flatMap((event) => (event.kind === "token" ? [event.data.text] : []));
      assert.equal(replyText(play(events)), tokens.join(""));
    }),
  );
});

test("what is no event of a run is left out", () => {
  assert.equal(parseRunEvent({ id: "", kind: "token", data: {} }), null);
  assert.equal(parseRunEvent({ id: "r:x", kind: "token", data: {} }), null);
  assert.equal(parseRunEvent({ id: "r:1", kind: "weather", data: {} }), null);
  assert.deepEqual(parseRunEvent({ id: "a:b:7", kind: "token", data: { text: "x" } }), { runId: "a:b", number: 7, kind: "token", data: { text: "x" } });
});
