// The view that the address names, in its fragment.
import { useSyncExternalStore } from "react";

export type Route =
  | { view: "chat"; threadId: string | null; messageId: string | null }
  | { view: "memory"; memoryId: string | null; threadId: string | null }
  | { view: "operator"; label: string | null }
  | { view: "inbox" | "privacy" };

/** Return the route of a fragment such as `#/chat/ID?message=ID`. */
export function parseRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?");
  const [view, id] = path.split("/").map((part) => decodeURIComponent(part));
  const messageId = new URLSearchParams(query).get("message");
  if (view === "memory") return { view, memoryId: id ?? null, threadId: new URLSearchParams(query).get("thread") };
  if (view === "operator") return { view, label: id ?? null };
  if (view === "inbox" || view === "privacy") return { view };
  if (view === "chat" && id) return { view: "chat", threadId: id, messageId };
  return { view: "chat", threadId: null, messageId: null };
}

export const chatAddress = (threadId: string | null, messageId: string | null = null): string =>
  threadId === null
    ? "#/"
    : `#/chat/${encodeURIComponent(threadId)}${messageId === null ? "" : `?${new URLSearchParams({ message: messageId })}`}`;

export const memoryAddress = (memoryId: string | null = null): string =>
  memoryId === null ? "#/memory" : `#/memory/${encodeURIComponent(memoryId)}`;

/** The address of the memories that were said in a conversation. */
export const memoriesOfThread = (threadId: string): string => `#/memory?${new URLSearchParams({ thread: threadId })}`;

export const inboxAddress = "#/inbox";
export const privacyAddress = "#/privacy";

export const operatorAddress = (label: string | null = null): string =>
  label === null ? "#/operator" : `#/operator/${encodeURIComponent(label)}`;

export function go(address: string): void {
  location.hash = address;
}

/** Change the address of the view that is shown, without a step in the history. */
export function replaceAddress(address: string): void {
  history.replaceState(null, "", address);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

const subscribe = (listener: () => void) => {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
};

export function useFragment(): string {
  return useSyncExternalStore(subscribe, () => location.hash);
}
