// What memory had to do with an exchange: recalled in it, learnt from it, waiting because of it.
import { call } from "../api/client.ts";
import type { Recalled } from "../events/turn.ts";
import type { Memory, Proposal } from "../stores/memories.ts";
import { Store } from "../stores/store.ts";
import { attempt } from "../stores/toasts.ts";
import type { Exchange } from "./exchanges.ts";

/** A memory that was learnt from an exchange. */
export interface Learnt {
  memoryId: string;
  text: string;
  kind: string;
}

/** The newest memories, which say in which message each was learnt. */
export const turnMemories = new Store<readonly Memory[]>([]);

const pageSize = 100;
const note = "episodic";

/** Read the newest memories, so that earlier turns of a thread show what was learnt from them. */
export async function loadTurnMemories(): Promise<void> {
  await attempt(async () => {
    const { memories } = await call("get", "/api/memories", { query: { limit: pageSize } });
    turnMemories.set(memories);
  });
}

/** Return what was recalled in an exchange, of all its runs; null: this page has not seen it. */
export function recalledBy(exchange: Exchange): Recalled | null {
  return exchange.turns.map((turn) => turn.recalled).find((recalled) => recalled !== null) ?? null;
}

/** Return what was learnt from an exchange, from its events or from the sources of memories. */
export function learntFrom(exchange: Exchange, stored: readonly Memory[]): Learnt[] {
  const told = exchange.turns.flatMap((turn) => turn.learnt);
  if (told.length > 0) {
    return told
      .filter((one) => one.kind !== note)
      .map((one) => ({ memoryId: one.memory_id, text: one.text, kind: one.kind }));
  }
  if (exchange.messageId === null) return [];
  return stored
    .filter((one) => one.kind !== note && one.sources.some((source) => source.message_id === exchange.messageId))
    .map((one) => ({ memoryId: one.memory_id, text: one.text, kind: one.kind }));
}

/** Return the proposals that wait because of an exchange. */
export function waitingFrom(exchange: Exchange, waiting: readonly Proposal[]): Proposal[] {
  const told = new Set(exchange.turns.flatMap((turn) => turn.proposals.map((one) => one.proposal_id)));
  const messages = new Set([exchange.messageId, ...exchange.turns.flatMap((turn) => turn.messageIds)]);
  return waiting.filter(
    (one) => told.has(one.proposal_id) || one.sources.some((source) => source.message_id !== null && messages.has(source.message_id)),
  );
}
