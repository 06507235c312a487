// The list of conversations: the newest ones, and as many earlier ones as were asked for.
import { call, type Schemas } from "../api/client.ts";
import { Store } from "./store.ts";
import { attempt } from "./toasts.ts";

export type Thread = Schemas["ThreadBody"];

const pageSize = 100;

export const threads = new Store<readonly Thread[] | null>(null);

/** Whether the conversations could not be read. */
export const threadsAway = new Store(false);

/** Where the list goes on; null: all of it is read. */
let cursor: string | null = null;
let reading = false;

/** Read the newest conversations; those that were read before stay. */
export async function loadThreads(): Promise<void> {
  const read = await attempt(async () => {
    const page = await call("get", "/api/threads", { query: { limit: pageSize } });
    const known = threads.get() ?? [];
    const newest = new Set(page.threads.map((one) => one.thread_id));
    const earlier = page.cursor === null || known.length <= pageSize ? [] : known.filter((one) => !newest.has(one.thread_id));
    if (earlier.length === 0) cursor = page.cursor;
    threads.set([...page.threads, ...earlier]);
  });
  threadsAway.set(!read);
}

/** Read the next page of earlier conversations. */
export async function loadMoreThreads(): Promise<void> {
  if (cursor === null || reading) return;
  reading = true;
  await attempt(async () => {
    const page = await call("get", "/api/threads", { query: { limit: pageSize, cursor: cursor ?? "" } });
    cursor = page.cursor;
    threads.update((list) => {
      const known = new Set(list?.map((one) => one.thread_id));
      return [...(list ?? []), ...page.threads.filter((one) => !known.has(one.thread_id))];
    });
  });
  reading = false;
}

export async function changeThread(threadId: string, body: { title?: string; pinned?: boolean }): Promise<void> {
  await attempt(async () => {
    const changed = await call("patch", "/api/threads/{thread_id}", { path: { thread_id: threadId }, body });
    threads.update((list) => list?.map((one) => (one.thread_id === threadId ? changed : one)) ?? null);
  });
}

export async function deleteThread(threadId: string): Promise<boolean> {
  return attempt(async () => {
    await call("delete", "/api/threads/{thread_id}", { path: { thread_id: threadId } });
    dropThread(threadId);
    tabs.postMessage({ deleted: threadId });
  });
}

function dropThread(threadId: string): void {
  threads.update((list) => list?.filter((one) => one.thread_id !== threadId) ?? null);
}

const tabs = new BroadcastChannel("threadkeep-threads");

/** Call *onDeleted* when another tab of this browser deletes a conversation; return what ends that. */
export function watchDeletions(onDeleted: (threadId: string) => void): () => void {
  function onMessage(event: MessageEvent<{ deleted: string }>) {
    dropThread(event.data.deleted);
    onDeleted(event.data.deleted);
  }
  tabs.addEventListener("message", onMessage);
  return () => tabs.removeEventListener("message", onMessage);
}

/** Begin a new conversation with everything that another one has, and return its id. */
export async function forkThread(threadId: string): Promise<string | null> {
  let forked: string | null = null;
  await attempt(async () => {
    const thread = await call("post", "/api/threads/{thread_id}/fork", { path: { thread_id: threadId }, body: {} });
    forked = thread.thread_id;
    threads.update((list) => [thread, ...(list ?? [])]);
  });
  return forked;
}

/** What the user said in a conversation. */
export interface Mention {
  threadId: string;
  messageId: string | null;
  text: string;
}

export interface FoundThreads {
  threads: readonly Thread[];
  mentions: readonly Mention[];
}

const found = 50;

/** Find conversations with all words of a query in their title, and statements of the user that have them. */
export async function searchThreads(query: string): Promise<FoundThreads> {
  const [titles, said] = await Promise.all([
    call("get", "/api/threads", { query: { title: query.slice(0, 200), limit: found } }),
    call("get", "/api/memories/search", { query: { q: query, kind: "episodic", limit: found } }),
  ]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const mentions = said.found.flatMap(({ memory }): Mention[] => {
    const source = memory.sources.at(-1);
    const text = memory.text.toLowerCase();
    if (!source?.thread_id || !words.every((word) => text.includes(word))) return [];
    return [{ threadId: source.thread_id, messageId: source.message_id, text: memory.text }];
  });
  return { threads: titles.threads, mentions };
}
