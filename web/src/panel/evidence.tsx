// The message that a statement rests on, with the words that both have.
import { useCallback } from "react";
import { call, type Schemas } from "../api/client.ts";
import { useLoaded } from "../components/use-loaded.ts";
import { markWords } from "./mark-words.ts";

const read = new Map<string, Promise<Schemas["MessagesBody"]>>();

/** The messages of a thread, read once while the page is open; an answer that failed is not kept. */
function messagesOf(threadId: string): Promise<Schemas["MessagesBody"]> {
  const known = read.get(threadId);
  if (known !== undefined) return known;
  const reading = call("get", "/api/threads/{thread_id}/messages", { path: { thread_id: threadId } });
  read.set(threadId, reading);
  reading.catch(() => read.delete(threadId));
  return reading;
}

export function Evidence({ threadId, messageId, statement }: { threadId: string; messageId: string | null; statement: string }) {
  const thread = useLoaded(useCallback(() => messagesOf(threadId), [threadId]));
  const message = thread.value?.messages.find((one) => one.message_id === messageId);
  return message === undefined ? null : <Quote text={message.text} statement={statement} />;
}

/** A message with the words of a statement marked. */
export function Quote({ text, statement }: { text: string; statement: string }) {
  return (
    <blockquote className="evidence">
      {markWords(text, statement).map((piece, index) => (piece.marked ? <mark key={index}>{piece.text}</mark> : piece.text))}
    </blockquote>
  );
}
