// Short sentences about what was done or failed, each with at most one action.
import { ThreadkeepError, isSessionOver } from "../api/client.ts";
import { announce } from "../components/announce.ts";
import { texts } from "../texts.ts";
import { Store } from "./store.ts";

export interface Toast {
  id: number;
  text: string;
  action: { label: string; run: () => void } | null;
}

const seconds = 8;
let count = 0;

export const toasts = new Store<readonly Toast[]>([]);

export function showToast(text: string, action: Toast["action"] = null): void {
  const toast = { id: ++count, text, action };
  toasts.update((shown) => [...shown.slice(-2), toast]);
  announce(text);
  setTimeout(() => closeToast(toast.id), seconds * 1000);
}

export function closeToast(id: number): void {
  toasts.update((shown) => shown.filter((one) => one.id !== id));
}

/** Do something, and say so if the server refuses it; return whether it was done. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof ThreadkeepError)) throw error;
    if (isSessionOver(error)) sessionEnded.set(true);
    else showToast(error.status === 0 ? texts.unavailable : texts.failed(error.message));
    return false;
  }
}

/** Whether a request was refused because the session has ended. */
export const sessionEnded = new Store(false);
