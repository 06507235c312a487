// The list of conversations.
import { call, type Schemas } from "../api/client.ts";
import { Store } from "./store.ts";
import { attempt } from "./toasts.ts";

export type Thread = Schemas["ThreadBody"];

const pageSize = 100;
const mostPages = 10;

export const threads = new Store<readonly Thread[] | null>(null);

export async function loadThreads(): Promise<void> {
  await attempt(async () => {
    const all: Thread[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < mostPages; page++) {
      const query: { limit: number; cursor?: string } = { limit: pageSize, ...(cursor === null ? {} : { cursor }) };
      const answer: Schemas["ThreadsBody"] = await call("get", "/api/threads", { query });
      all.push(...answer.threads);
      cursor = answer.cursor;
      if (cursor === null) break;
    }
    threads.set(all);
  });
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
    threads.update((list) => list?.filter((one) => one.thread_id !== threadId) ?? null);
  });
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
