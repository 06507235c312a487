// The conversations that were opened since the page was loaded; one that runs goes on while another is shown.
import { useSyncExternalStore } from "react";
import { loadInbox } from "../stores/memories.ts";
import { loadThreads } from "../stores/threads.ts";
import { chatAddress, parseRoute, replaceAddress } from "../route.ts";
import { Chat } from "./chat.ts";

interface OpenChat {
  id: number;
  chat: Chat;
}

const open = new Map<string, OpenChat>();
let fresh: OpenChat | null = null;
let count = 0;

function opened(threadId: string | null): OpenChat {
  const known = threadId === null ? fresh : open.get(threadId);
  if (known) return known;
  const made: OpenChat = { id: ++count, chat: new Chat(threadId, (chat) => onThread(made, chat)) };
  if (threadId === null) fresh = made;
  else open.set(threadId, made);
  return made;
}

/** A new conversation has its thread, or a turn has ended: the lists are read again. */
function onThread(made: OpenChat, chat: Chat): void {
  const { threadId } = chat.state();
  if (threadId === null) return;
  if (fresh === made) {
    fresh = null;
    open.set(threadId, made);
    const route = parseRoute(location.hash);
    if (route.view === "chat" && route.threadId === null) replaceAddress(chatAddress(threadId));
  }
  void loadThreads();
  void loadInbox();
}

/** A conversation was deleted: where it is shown, the view says so. */
export function forgetChat(threadId: string): void {
  open.get(threadId)?.chat.markDeleted();
}

export function useChats(threadId: string | null): OpenChat {
  return opened(threadId);
}

/** Return the new conversation that has no thread yet. */
export function freshChat(): Chat {
  return opened(null).chat;
}

interface Kept {
  userId: string;
  draft: string;
}

/** Load the page anew; what the user has written and not sent is there again. */
export function reloadPage(userId: string): void {
  history.replaceState({ userId, draft: shownChat().draft } satisfies Kept, "");
  location.reload();
}

/** Put back what was written before the page was loaded anew, if the same user goes on. */
export function restoreDraft(userId: string): void {
  const kept = history.state as Kept | null;
  if (kept === null) return;
  history.replaceState(null, "");
  if (kept.userId === userId) shownChat().draft ||= kept.draft;
}

/** The chat of the address; in another view, the new one. */
function shownChat(): Chat {
  const route = parseRoute(location.hash);
  return opened(route.view === "chat" ? route.threadId : null).chat;
}

export function useChatState(chat: Chat) {
  return useSyncExternalStore(chat.subscribe, chat.state);
}
