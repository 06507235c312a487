// Requests to the gateway, typed by its OpenAPI document.
import { problemOf, ThreadkeepError } from "../../../packages/client-typescript/src/errors.ts";
import { upload } from "./upload.ts";
import { noteVersion } from "./version.ts";
import type { components, paths } from "./schema.ts";

export { ThreadkeepError };

export type Schemas = components["schemas"];
type Method = "get" | "post" | "patch" | "delete";
type PathsOf<M extends Method> = { [P in keyof paths]: paths[P][M] extends object ? P : never }[keyof paths];
type Operation<M extends Method, P extends keyof paths> = paths[P][M];
type JsonOf<T> = T extends { content: { "application/json": infer J } } ? J : undefined;
type Answer<O> = O extends { responses: infer R } ? JsonOf<R[keyof R & (200 | 201 | 204)]> : never;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer J } } } ? J : undefined;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? Q : undefined;

export interface CallOptions<O> {
  path?: Record<string, string>;
  query?: NonNullable<QueryOf<O>>;
  body?: BodyOf<O>;
  ifMatch?: number;
  signal?: AbortSignal;
}

/** Whether a request was refused because its session has ended, or another tab has begun a new one. */
export function isSessionOver(error: ThreadkeepError): boolean {
  return error.status === 401 || error.code === "csrf_refused";
}

let csrfToken: string | null = null;

/** Set what requests of this session repeat in the header X-CSRF-Token; null: the server has no sessions. */
export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

/** Send a request and return the JSON of its answer. */
export async function call<M extends Method, P extends PathsOf<M>>(
  method: M,
  path: P,
  options: CallOptions<Operation<M, P>> = {},
): Promise<Answer<Operation<M, P>>> {
  const headers: Record<string, string> = {};
  if (options.ifMatch !== undefined) headers["If-Match"] = `"${options.ifMatch}"`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const response = await send(method, addressOf(path, options.path, options.query), {
    headers,
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  return (response.status === 204 ? undefined : await response.json()) as Answer<Operation<M, P>>;
}

/**
 * Send a request with the headers of the session; an answer that is no success becomes a ThreadkeepError.
 *
 * @param onSent Called with how many bytes have been sent.
 */
export async function send(method: string, address: string, init: RequestInit = {}, onSent?: (bytes: number) => void): Promise<Response> {
  const headers = new Headers(init.headers);
  if (csrfToken !== null && method !== "get") headers.set("X-CSRF-Token", csrfToken);
  const request: RequestInit = { ...init, method: method.toUpperCase(), headers, redirect: "error" };
  let response: Response;
  try {
    response = await (onSent === undefined ? fetch(address, request) : upload(address, request, onSent));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ThreadkeepError(0, "unreachable", String(error));
  }
  noteVersion(response);
  if (!response.ok) throw await problemOf(response);
  return response;
}

function addressOf(path: string, parts: Record<string, string> = {}, query: object = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts[name] ?? ""));
  const given = Object.entries(query).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one: unknown) => [name, one] as const));
  const sent = given.filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => [name, String(value)]);
  return sent.length ? `${filled}?${new URLSearchParams(sent)}` : filled;
}
