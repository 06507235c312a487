// The messages of a thread as exchanges: what the user said, and everything that answered it.
import { newTurn, type ReplyPart, type Turn } from "../events/turn.ts";
import type { ThreadMessage } from "../events/types.ts";

export interface Exchange {
  /** Unique in the chat; it does not change while a turn runs. */
  key: string;
  messageId: string | null;
  question: string;
  /** The names of the files that came with the question. */
  files: readonly string[];
  /** Which share of each file has been sent; empty: none is being sent. */
  sent: readonly number[];
  /** How many messages the thread has before the exchange; null: not known yet. */
  place: number | null;
  /** The runs of the exchange: the turn, and one for each answer to what it asked. */
  turns: readonly Turn[];
  /** Whether the events were seen by this page, so that what was recalled is known. */
  seen: boolean;
  memory: boolean;
  /** Whether no more is told about what is learnt from it. */
  settled: boolean;
}

const attached = /^File (['"])(.*)\1, attached by the user\./;

/** Return the exchanges of the messages of a thread. */
export function exchangesOf(messages: readonly ThreadMessage[]): Exchange[] {
  const exchanges: Exchange[] = [];
  let files: string[] = [];
  messages.forEach((message, place) => {
    const file = message.role === "system" ? attached.exec(message.text) : null;
    if (file !== null) files.push(file[2] ?? "");
    else if (message.role === "user" || message.role === "agent") {
      exchanges.push(exchange(message, place - files.length, files));
      files = [];
    } else {
      const part = partOf(message, place);
      const last = exchanges.at(-1);
      if (part !== null && last !== undefined) exchanges[exchanges.length - 1] = withPart(last, part);
    }
  });
  return exchanges;
}

function exchange(message: ThreadMessage, place: number, files: readonly string[]): Exchange {
  return {
    key: message.message_id ?? `place-${place}`,
    messageId: message.message_id,
    question: message.text,
    files,
    sent: [],
    place,
    turns: [{ ...newTurn, status: "done" }],
    seen: false,
    memory: true,
    settled: true,
  };
}

function partOf(message: ThreadMessage, place: number): ReplyPart | null {
  const id = message.message_id ?? `place-${place}`;
  if (message.role === "tool") {
    return { kind: "tool", call: { id, name: "", args: null, result: { status: "success", text: message.text } } };
  }
  return message.role === "assistant" && message.text !== "" ? { kind: "text", messageId: id, text: message.text } : null;
}

function withPart(exchange: Exchange, part: ReplyPart): Exchange {
  return { ...exchange, turns: exchange.turns.map((turn) => ({ ...turn, parts: [...turn.parts, part] })) };
}

/** Return the newest run of an exchange. */
export function lastTurn(exchange: Exchange): Turn {
  return exchange.turns.at(-1) ?? newTurn;
}

/** Return the parts of the reply of all runs of an exchange. */
export function partsOf(exchange: Exchange): ReplyPart[] {
  return exchange.turns.flatMap((turn) => turn.parts);
}
