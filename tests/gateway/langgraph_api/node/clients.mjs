// Drives useStream and the stream callback of assistant-ui against a server, and prints what happened as JSON.
//
// Usage: node clients.mjs BASE_URL HEADERS_AS_JSON 1|2
import { JSDOM } from "jsdom";

const [, , apiUrl, headers, version] = process.argv;
const defaultHeaders = JSON.parse(headers);
const dom = new JSDOM("<div id='root'></div>", { url: "http://localhost/" });
for (const name of ["window", "document", "sessionStorage", "HTMLElement", "Node", "navigator"]) {
  Object.defineProperty(globalThis, name, { value: name === "window" ? dom.window : dom.window[name], configurable: true });
}
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const requests = [];
const send = globalThis.fetch;
globalThis.fetch = async (url, init = {}) => {
  const { pathname, search } = new URL(String(url));
  const body = typeof init.body === "string" ? JSON.parse(init.body) : null;
  const request = { method: init.method ?? "GET", path: pathname + search, body };
  requests.push(request); // in the order in which they are sent: answers to two at once come in any order
  const response = await send(url, init);
  request.status = response.status;
  return response;
};
window.fetch = globalThis.fetch;

const React = await import("react");
const { createRoot } = await import("react-dom/client");
const { flushSync } = await import("react-dom");
const { useStream } = await (version === "1" ? import("@langchain/langgraph-sdk/react") : import("sdk2/react"));
const { Client } = await (version === "1" ? import("@langchain/langgraph-sdk") : import("sdk2"));

let stream;
let threadId = null;
let root;

function Page(props) {
  const [id, setId] = React.useState(props.threadId);
  stream = useStream({
    apiUrl,
    defaultHeaders,
    assistantId: "agent",
    threadId: id,
    onThreadId: (one) => {
      threadId = one;
      setId(one);
    },
    ...props.options,
  });
  void stream.values;
  void stream.messages;
  void stream.history;
  return null;
}

function mount(props) {
  root?.unmount();
  root = createRoot(document.getElementById("root"));
  flushSync(() => root.render(React.createElement(Page, props)));
}

async function until(what, condition) {
  for (let tries = 0; tries < 1500; tries += 1) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const last = JSON.stringify({ messages: texts(), error: String(stream.error), requests: requests.slice(-3) });
  throw new Error(`${what} did not happen: ${last}`);
}

const text = (message) => (typeof message.content === "string" ? message.content : message.content.map((part) => part.text).join(""));
const texts = () => stream.messages.map(text);
const human = (content) => ({ id: crypto.randomUUID(), type: "human", content: [{ type: "text", text: content }] });
const result = {};

// agent-chat-ui: a message, its options, the history beside it.
const page = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };
async function talk(content, options = {}) {
  stream.submit({ messages: [human(content)] }, { ...page, ...options });
  await until("the start", () => stream.isLoading);
  await until("the end", () => !stream.isLoading);
}

const info = await fetch(`${apiUrl}/info`, { headers: defaultHeaders });
result.info = info.ok;
mount({ threadId: null, options: { fetchStateHistory: true } });
await talk("hello");
await until("the reply", () => texts().at(-1) === "you said hello");
result.talk = texts();

// Tokens, as they come.
const seen = new Set();
stream.submit({ messages: [human("one two three")] }, { streamMode: ["messages-tuple", "values"] });
await until("a token", () => {
  seen.add(texts().at(-1));
  return texts().at(-1) === "you said one two three" && !stream.isLoading;
});
result.tokens = [...seen];

// Stop: a run that is not to be resumed ends with its client.
stream.submit({ messages: [human("hang")] }, { streamMode: ["values"] });
await until("the message", () => texts().at(-1) === "hang");
await stream.stop();
await until("the stop", () => !stream.isLoading);
const client = new Client({ apiUrl, defaultHeaders });
for (let tries = 0; tries < 500; tries += 1) {
  if ((await client.threads.get(threadId)).status !== "busy") break;
  await new Promise((resolve) => setTimeout(resolve, 20));
}
result.stopped = (await client.threads.get(threadId)).status;

// A question and its answer.
await talk("ask me");
await until("the question", () => stream.interrupt !== undefined);
result.interrupt = stream.interrupt.value;
stream.submit(undefined, { command: { resume: "blue" }, ...page });
await until("the answer", () => texts().at(-1) === "you said color blue" && !stream.isLoading);
result.resumed = texts().at(-1);

// Edit the first message: a branch of the thread.
const first = stream.messages[0];
await until("the history", () => stream.getMessagesMetadata(first)?.firstSeenState !== undefined);
const { firstSeenState } = stream.getMessagesMetadata(first);
await talk("other", { checkpoint: firstSeenState.parent_checkpoint ?? null });
await until("the branch", () => texts().at(-1) === "you said other");
result.edited = texts();

// Rejoin a run from a page that was opened again.
const run = await client.runs.create(threadId, "agent", {
  input: { messages: [human("hang around")] }, streamMode: ["values"], streamResumable: true,
});
mount({ threadId, options: { fetchStateHistory: true } });
void stream.joinStream(run.run_id, undefined, { streamMode: ["values"] });
await until("the joined run", () => texts().includes("hang around"));
result.rejoined = stream.isLoading;
await client.runs.cancel(threadId, run.run_id, true);
await until("its end", () => !stream.isLoading);
result.threads = (await client.threads.search({ metadata: { graph_id: "agent" }, limit: 100 })).length;
root.unmount();

// assistant-ui: its stream callback, and loading a thread.
if (version === "1") {
  const marked = requests.length;
  const { unstable_createLangGraphStream: createStream, LangGraphMessageAccumulator, appendLangChainChunk } =
    await import("@assistant-ui/react-langgraph");
  const callback = createStream({ client, assistantId: "agent" });
  const { thread_id: externalId } = await client.threads.create();
  const config = { initialize: async () => ({ externalId }), abortSignal: new AbortController().signal };
  const shown = new LangGraphMessageAccumulator({ appendMessage: appendLangChainChunk });
  for await (const part of await callback([{ type: "human", content: "hello" }], config)) {
    if (part.event === "messages/partial" || part.event === "messages/complete") shown.addMessages(part.data);
  }
  result.assistantUi = shown.getMessages().map((message) => message.content);
  for await (const part of await callback([{ type: "human", content: "ask" }], config)) void part;
  const state = await client.threads.getState(externalId);
  result.assistantUiInterrupt = state.tasks[0].interrupts[0].value;
  for await (const part of await callback([], { ...config, command: { resume: "red" } })) void part;
  result.assistantUiResumed = (await client.threads.getState(externalId)).values.messages.at(-1).content;
  result.assistantUiRequests = requests.slice(marked);
  requests.length = marked;
}

console.log(JSON.stringify({ result, requests, threadId }));
process.exit(0);
