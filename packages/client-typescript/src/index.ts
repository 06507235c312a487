// A typed client of Threadkeep's gateway: every route of its OpenAPI document, and the events of runs.
import createFetchClient, { type Client } from "openapi-fetch";
import { problemOf, ThreadkeepError } from "./errors.ts";
import { eventsOf, type RunEvent } from "./events.ts";
import type { components, paths } from "./schema.ts";

export type Schemas = components["schemas"];
export { ThreadkeepError };
export type { paths, RunEvent };

export interface ClientOptions {
  /** Where the gateway is, without a path: `https://memory.example.com`. */
  baseUrl: string;
  /** The user's access token, or what returns it for each request; or an API key. */
  token?: string | (() => string | Promise<string>);
  /** The owner that an API key with the scope `act` acts for. */
  actingFor?: string;
  fetch?: typeof fetch;
}

export type ChatRequest = paths["/api/chat/stream"]["post"]["requestBody"]["content"]["application/json"];

export interface ThreadkeepClient {
  /** Every route, typed: `client.api.GET("/api/memories", { params: { query: { limit: 10 } } })`. */
  readonly api: Client<paths>;
  /** Begin a turn and yield its events; with *idempotencyKey*, a repeated request joins the same run. */
  chat(request: ChatRequest, options?: { idempotencyKey?: string; signal?: AbortSignal }): AsyncGenerator<RunEvent>;
  /** Join a run and yield its events behind *lastEventId*. */
  join(runId: string, options?: { lastEventId?: string; signal?: AbortSignal }): AsyncGenerator<RunEvent>;
  /** Answer what an interrupted run asks, and yield the events of the run that goes on. */
  resume(runId: string, answer: unknown, options?: { signal?: AbortSignal }): AsyncGenerator<RunEvent>;
}

/** Return a client. Answers that are no success throw a {@link ThreadkeepError}. */
export function createThreadkeepClient(options: ClientOptions): ThreadkeepClient {
  const baseUrl = options.baseUrl.replace(/\/+$/, "");
  const sending = options.fetch ?? fetch;

  async function send(request: Request): Promise<Response> {
    const { token } = options;
    if (token !== undefined) request.headers.set("Authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
    if (options.actingFor !== undefined) request.headers.set("X-Threadkeep-Acting-For", options.actingFor);
    const response = await sending(request);
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  async function* stream(path: string, init: RequestInit): AsyncGenerator<RunEvent> {
    const response = await send(new Request(`${baseUrl}${path}`, init));
    yield* eventsOf(response);
  }

  function post(path: string, body: unknown, headers: Record<string, string>, signal: AbortSignal | undefined): AsyncGenerator<RunEvent> {
    const init = { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } };
    return stream(path, signal === undefined ? init : { ...init, signal });
  }

  return {
    api: createFetchClient<paths>({ baseUrl, fetch: send }),
    chat: (request, { idempotencyKey, signal } = {}) =>
      post("/api/chat/stream", request, idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey }, signal),
    join: (runId, { lastEventId, signal } = {}) =>
      stream(`/api/runs/${encodeURIComponent(runId)}/stream`, {
        headers: lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId },
        ...(signal === undefined ? {} : { signal }),
      }),
    resume: (runId, answer, { signal } = {}) => post(`/api/runs/${encodeURIComponent(runId)}/resume`, { answer }, {}, signal),
  };
}
