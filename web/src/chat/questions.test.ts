import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { questionOf } from "./questions.ts";

test("a use of a tool names the tool, its arguments and what may be decided", () => {
  const question = questionOf({
    action_requests: [{ name: "refund", args: { euros: 5 }, description: "Pays." }, { name: "mail", args: {} }],
    review_configs: [{ action_name: "refund", allowed_decisions: ["approve", "reject"] }],
  });
  assert.equal(question.kind, "tools");
  if (question.kind !== "tools") return;
  assert.deepEqual(question.tools.map((one) => [one.name, [...one.allowed]]), [
    ["refund", ["approve", "reject"]], ["mail", ["approve", "edit", "reject"]],
  ]);
});

test("any other value is shown as it is", () => {
  assert.deepEqual(questionOf("Sure?"), { kind: "free", text: "Sure?" });
  assert.deepEqual(questionOf({ question: "Sure?" }), { kind: "free", text: "Sure?" });
  fc.assert(fc.property(fc.jsonValue(), (value) => typeof questionOf(value).kind === "string"));
});
