// Talks to a gateway with two users, and prints what was seen: node test/client.ts ORIGIN ANA'S_TOKEN BOB'S_TOKEN
import { createThreadkeepClient, ThreadkeepError, type RunEvent } from "../src/index.ts";

const [baseUrl = "", ana = "", bob = ""] = process.argv.slice(2);
const client = createThreadkeepClient({ baseUrl: `${baseUrl}/`, token: async () => ana });
const other = createThreadkeepClient({ baseUrl, token: bob });

async function all(events: AsyncGenerator<RunEvent>): Promise<RunEvent[]> {
  const seen: RunEvent[] = [];
  for await (const event of events) seen.push(event);
  return seen;
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "none";
  } catch (error) {
    return error instanceof ThreadkeepError ? `${error.status} ${error.code}` : String(error);
  }
}

const request = { message: "I live in Rome.", thread_id: "monday" };
const first = await all(client.chat(request, { idempotencyKey: "k1" }));
const again = await all(client.chat(request, { idempotencyKey: "k1" }));
const runId = String(first[0]?.data["run_id"]);
const joined = await all(client.join(runId, { lastEventId: first[1]?.id ?? "" }));
const { data } = await client.api.GET("/api/memories", { params: { query: { kind: "semantic" } } });
const memory = data?.memories[0];
const corrected = await client.api.PATCH("/api/memories/{memory_id}", {
  params: { path: { memory_id: memory?.memory_id ?? "" }, header: { "if-match": `"${memory?.revision}"` } },
  body: { text: "I live in Oslo." },
});
// @ts-expect-error - the gateway has no such route
const unknown = codeOf(client.api.GET("/api/nothing"));
// @ts-expect-error - a message is a text
const wrong = codeOf(all(client.chat({ message: 7 })));

process.stdout.write(
  JSON.stringify({
    kinds: first.map((one) => one.kind),
    text: first.filter((one) => one.kind === "token").map((one) => one.data["text"]).join(""),
    again: JSON.stringify(again) === JSON.stringify(first),
    joined: joined.length === first.length - 2,
    memories: data?.memories.map((one) => one.text),
    corrected: corrected.data?.text,
    others: (await other.api.GET("/api/memories")).data?.memories.length,
    foreign: await codeOf(all(other.join(runId))),
    resumed: await codeOf(all(client.resume(runId, "yes"))),
    unknown: await unknown,
    wrong: await wrong,
    nobody: await codeOf(createThreadkeepClient({ baseUrl }).api.GET("/api/memories")),
    unreachable: (await codeOf(createThreadkeepClient({ baseUrl: "http://127.0.0.1:9" }).api.GET("/api/memories"))).slice(0, 9),
  }),
);
