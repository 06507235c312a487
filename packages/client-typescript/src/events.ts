// The events of a run, as they are streamed.
import { createParser } from "eventsource-parser";

/** An event of a run. `id` continues the stream behind it. */
export interface RunEvent {
  id: string;
  kind: string;
  data: Record<string, unknown>;
}

/** Yield the events of an answer while they come. */
export async function* eventsOf(response: Response): AsyncGenerator<RunEvent> {
  const waiting: RunEvent[] = [];
  const parser = createParser({
    onEvent: ({ id, event, data }) => {
      if (event !== undefined) waiting.push({ id: id ?? "", kind: event, data: JSON.parse(data) as Record<string, unknown> });
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? new ReadableStream<Uint8Array<ArrayBuffer>>()) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* waiting.splice(0);
  }
}
