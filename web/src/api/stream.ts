// The events of a run: read while they come, and joined again after the connection was lost.
import { eventsOf } from "../../../packages/client-typescript/src/events.ts";
import { parseRunEvent, type RunEvent } from "../events/types.ts";
import { ThreadkeepError, send } from "./client.ts";

const firstPause = 300;
const longestPause = 5_000;
const patience = 120_000;

export interface Follower {
  /** Called with each event. */
  onEvent: (event: RunEvent) => void;
  /** Called when the connection is lost, and when it is there again. */
  onConnected: (connected: boolean) => void;
}

/**
 * Read the events of a run to their end.
 *
 * A lost connection is tried again for two minutes: with the request that began the run, which has an Idempotency-Key
 * and so begins no second one, until the id of the run is known; then by that id and the last event.
 */
export async function followRun(begin: () => Promise<Response>, follower: Follower, signal: AbortSignal): Promise<void> {
  let lastId: string | null = null;
  let runId: string | null = null;
  let lostAt: number | null = null;
  for (let pause = firstPause; ; pause = Math.min(pause * 2, longestPause)) {
    try {
      const response = runId === null ? await begin() : await join(runId, lastId, signal);
      follower.onConnected(true);
      await readEvents(response, (event, id) => {
        [runId, lastId, lostAt, pause] = [event.runId, id, null, firstPause];
        follower.onEvent(event);
      });
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!isLost(error)) throw error;
      lostAt ??= Date.now();
      if (Date.now() - lostAt > patience) throw new ThreadkeepError(0, "unreachable", String(error));
      follower.onConnected(false);
      await waitForNetwork(pause, signal);
    }
  }
}

/** Join a run whose id is known, from its first event. */
export function join(runId: string, lastId: string | null, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = lastId === null ? {} : { "Last-Event-ID": lastId };
  return send("get", `/api/runs/${encodeURIComponent(runId)}/stream`, { headers, signal });
}

/** Errors of the network, and of a server that is away for a moment. */
function isLost(error: unknown): boolean {
  if (error instanceof ThreadkeepError) return error.status === 0 || error.status === 502 || error.status === 504;
  return error instanceof TypeError; // a body that ends early
}

async function readEvents(response: Response, onEvent: (event: RunEvent, id: string) => void): Promise<void> {
  for await (const received of eventsOf(response)) {
    const event = parseRunEvent(received);
    if (event !== null) onEvent(event, received.id);
  }
}

/** Wait for so many milliseconds, or until the browser says that the network is there again. */
function waitForNetwork(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, milliseconds);
    function done() {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    }
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
