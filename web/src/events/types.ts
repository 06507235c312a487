// The events of a run, as docs/gateway.md describes them.
import type { RunEvent as Received } from "../../../packages/client-typescript/src/events.ts";

export interface RecalledMemory {
  memory_id: string;
  text: string | null;
  score: number;
  kind: string | null;
  said_at: string | null;
  thread_id: string | null;
  message_id: string | null;
  why: { said_by: string | null; approved_by: string | null; earlier: boolean | null; may_hold: boolean | null };
}

export interface ThreadMessage {
  role: string;
  text: string;
  message_id: string | null;
}

export interface Interrupt {
  id: string;
  value: unknown;
}

export interface WrittenMemory {
  memory_id: string;
  text: string;
  kind: string;
  change?: "new" | "changed" | "known";
  before?: string | null;
}

export interface WaitingProposal {
  proposal_id: string;
  action: string;
  text: string;
  kind: string;
  reason: string;
  memory_id: string | null;
}

export interface EventData {
  run: { run_id: string; thread_id: string };
  memory_recalled: { memories: RecalledMemory[]; left_out?: RecalledMemory[]; tokens: number; degraded: string[] };
  token: { text: string; message_id: string };
  tool_call: { id: string; name: string; args: unknown };
  tool_result: { id: string; name: string | null; status: string; text: string };
  policy: Record<string, unknown>;
  interrupt: { interrupts: Interrupt[] };
  done: { run_id: string; thread_id: string; status: "done" | "interrupted" | "cancelled"; message_ids: string[]; recorded: boolean };
  error: { run_id: string; thread_id: string; code: string; message: string };
  memory_written: WrittenMemory;
  proposal: WaitingProposal;
  reset: { run_id: string; thread_id: string; status: string; messages: ThreadMessage[] };
}

/** An event with its number in the run; the first has number 1. */
export type RunEvent = { [K in keyof EventData]: { runId: string; number: number; kind: K; data: EventData[K] } }[keyof EventData];

/** Return an event that was received; null: a kind that this page does not know, or no event of a run. */
export function parseRunEvent({ id, kind, data }: Received): RunEvent | null {
  const colon = id.lastIndexOf(":");
  const number = Number(id.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(number) || !isKind(kind)) return null;
  return { runId: id.slice(0, colon), number, kind, data } as unknown as RunEvent;
}

const kinds: ReadonlySet<string> = new Set<keyof EventData>([
  "run", "memory_recalled", "token", "tool_call", "tool_result", "policy", "interrupt", "done", "error",
  "memory_written", "proposal", "reset",
]);

function isKind(kind: string): kind is keyof EventData {
  return kinds.has(kind);
}
