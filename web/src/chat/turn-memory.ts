// What memory had to do with an exchange: from the events of its runs, or, after a reload, from the records of its turns.
import type { Schemas } from "../api/client.ts";
import { lastTurn, type Exchange } from "./exchanges.ts";
import type { RecalledMemory } from "../events/types.ts";
import type { Proposal } from "../stores/memories.ts";

/** What the server keeps of a turn: ids of what was recalled, and what was learnt. */
export type TurnRecord = Schemas["TurnBody"];

/** A memory that was found for an answer. */
export interface Given {
  memoryId: string;
  score: number;
  earlier: boolean;
  /** Whether an earlier one might still be so. */
  mayHold: boolean;
  /** What it said then; null: a record keeps no text. */
  told: RecalledMemory | null;
}

export interface ExchangeRecall {
  memories: readonly Given[];
  /** What had no room in the model's prompt. */
  leftOut: readonly Given[];
  /** Whether memory did not answer. */
  away: boolean;
}

/** A memory that an exchange taught. */
export interface Learnt {
  memoryId: string;
  text: string;
  kind: string;
  change: "new" | "changed" | "known";
  before: string | null;
}

const note = "episodic";
const missing = new Set(["storage", "timeout"]);

/** Return what was recalled in an exchange; null: it is not known, or nothing was looked up. */
export function recallOf(exchange: Exchange, record: TurnRecord | undefined): ExchangeRecall | null {
  const seen = exchange.turns.map((turn) => turn.recalled).find((recalled) => recalled !== null);
  if (seen) return recallFrom(seen.memories.map(givenOf), (seen.left_out ?? []).map(givenOf), seen.degraded);
  if (record?.recalled == null) return null;
  return recallFrom(record.recalled.map(ofRecord), record.left_out.map(ofRecord), record.degraded);
}

function recallFrom(memories: Given[], leftOut: Given[], degraded: readonly string[]): ExchangeRecall {
  return { memories, leftOut, away: memories.length === 0 && degraded.some((cause) => missing.has(cause)) };
}

const givenOf = (one: RecalledMemory): Given => ({ memoryId: one.memory_id, score: one.score, earlier: one.why.earlier ?? false, mayHold: one.why.may_hold ?? false, told: one });
const ofRecord = (one: Schemas["GivenBody"]): Given => ({ memoryId: one.memory_id, score: one.score, earlier: one.earlier, mayHold: one.may_hold, told: null });

/** Return what was learnt from an exchange; what was known already is last. */
export function learntFrom(exchange: Exchange, record: TurnRecord | undefined): Learnt[] {
  const told = exchange.turns.flatMap((turn) => turn.learnt);
  const learnt = (told.length > 0 ? told : (record?.learnt ?? []))
    .filter((one) => one.kind !== note)
    .map((one) => ({ memoryId: one.memory_id, text: one.text, kind: one.kind, change: one.change ?? "new", before: one.before ?? null }));
  return [...learnt.filter((one) => one.change !== "known"), ...learnt.filter((one) => one.change === "known")];
}

/** Whether the server still learns from an exchange. */
export function isLearning(exchange: Exchange, record: TurnRecord | undefined): boolean {
  const turn = lastTurn(exchange);
  if (turn.status === "running" || turn.status === "interrupted") return false;
  return exchange.seen && !exchange.settled ? turn.recorded : record?.state === "pending";
}

/** Return the proposals that wait because of an exchange. */
export function waitingFrom(exchange: Exchange, waiting: readonly Proposal[]): Proposal[] {
  const told = new Set(exchange.turns.flatMap((turn) => turn.proposals.map((one) => one.proposal_id)));
  const messages = new Set([exchange.messageId, ...exchange.turns.flatMap((turn) => turn.messageIds)]);
  return waiting.filter(
    (one) => told.has(one.proposal_id) || one.sources.some((source) => source.message_id !== null && messages.has(source.message_id)),
  );
}
