// The state of a turn, computed from the events of its run: in any order, some twice, after any interruption.
import type { Interrupt, RecalledMemory, RunEvent, ThreadMessage, WaitingProposal, WrittenMemory } from "./types.ts";

export type TurnStatus = "running" | "done" | "interrupted" | "cancelled" | "error";

export interface ToolCall {
  id: string;
  name: string;
  args: unknown;
  result: { status: string; text: string } | null;
}

/** A part of the reply, in the order in which the parts began. */
export type ReplyPart = { kind: "text"; messageId: string; text: string } | { kind: "tool"; call: ToolCall };

export interface Recalled {
  memories: readonly RecalledMemory[];
  left_out?: readonly RecalledMemory[];
  tokens: number;
  degraded: readonly string[];
}

export interface Turn {
  runId: string | null;
  threadId: string | null;
  status: TurnStatus;
  /** All events up to this number are applied. */
  last: number;
  /** Events that came before one with a lower number. */
  early: ReadonlyMap<number, RunEvent>;
  parts: readonly ReplyPart[];
  recalled: Recalled | null;
  interrupts: readonly Interrupt[];
  learnt: readonly WrittenMemory[];
  proposals: readonly WaitingProposal[];
  messageIds: readonly string[];
  recorded: boolean;
  error: { code: string; message: string } | null;
  /** The messages of the thread, in place of events that the server no longer had. */
  reset: readonly ThreadMessage[] | null;
}

export const newTurn: Turn = {
  runId: null,
  threadId: null,
  status: "running",
  last: 0,
  early: new Map(),
  parts: [],
  recalled: null,
  interrupts: [],
  learnt: [],
  proposals: [],
  messageIds: [],
  recorded: false,
  error: null,
  reset: null,
};

/** Return the turn after an event; one that was applied before, or is of another run, changes nothing. */
export function applyEvent(turn: Turn, event: RunEvent): Turn {
  if (turn.runId !== null && event.runId !== turn.runId) return turn;
  if (event.kind === "reset") return applyReset(turn, event);
  if (event.number <= turn.last) return turn;
  const early = new Map(turn.early).set(event.number, event);
  return applyInOrder({ ...turn, runId: event.runId, early });
}

function applyInOrder(turn: Turn): Turn {
  let next: RunEvent | undefined;
  const early = new Map(turn.early);
  let applied = turn;
  while ((next = early.get(applied.last + 1)) !== undefined) {
    early.delete(next.number);
    applied = { ...step(applied, next), last: next.number };
  }
  return { ...applied, early };
}

/** A reset has the number of the newest event that it stands for, so those up to it are not applied any more. */
function applyReset(turn: Turn, event: RunEvent & { kind: "reset" }): Turn {
  if (event.number < turn.last) return turn;
  const early = new Map([...turn.early].filter(([number]) => number > event.number));
  const { data } = event;
  const status: TurnStatus = data.status === "unknown" ? "done" : (data.status as TurnStatus);
  return applyInOrder({
    ...turn,
    runId: event.runId,
    threadId: data.thread_id,
    status,
    last: event.number,
    early,
    parts: [],
    reset: data.messages,
  });
}

function step(turn: Turn, event: RunEvent): Turn {
  switch (event.kind) {
    case "run":
      return { ...turn, runId: event.data.run_id, threadId: event.data.thread_id };
    case "memory_recalled":
      return { ...turn, recalled: event.data };
    case "token":
      return { ...turn, parts: withToken(turn.parts, event.data.message_id, event.data.text) };
    case "tool_call":
      return { ...turn, parts: [...turn.parts, { kind: "tool", call: { ...event.data, result: null } }] };
    case "tool_result":
      return { ...turn, parts: turn.parts.map((part) => withResult(part, event.data)) };
    case "interrupt":
      return { ...turn, interrupts: [...turn.interrupts, ...event.data.interrupts] };
    case "done":
      return { ...turn, status: event.data.status, messageIds: event.data.message_ids, recorded: event.data.recorded };
    case "error":
      return { ...turn, status: "error", error: { code: event.data.code, message: event.data.message } };
    case "memory_written":
      return { ...turn, learnt: [...turn.learnt, event.data] };
    case "proposal":
      return { ...turn, proposals: [...turn.proposals, event.data] };
    case "policy":
    case "reset":
      return turn;
  }
}

function withToken(parts: readonly ReplyPart[], messageId: string, text: string): readonly ReplyPart[] {
  const last = parts.at(-1);
  if (last?.kind !== "text" || last.messageId !== messageId) return [...parts, { kind: "text", messageId, text }];
  return [...parts.slice(0, -1), { ...last, text: last.text + text }];
}

function withResult(part: ReplyPart, result: { id: string; status: string; text: string }): ReplyPart {
  if (part.kind !== "tool" || part.call.id !== result.id) return part;
  return { kind: "tool", call: { ...part.call, result: { status: result.status, text: result.text } } };
}

/** Return the text of the reply. */
export function replyText(turn: Turn): string {
  return turn.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}
