// One conversation: its messages, the runs at work on it, and what a user does with it. Belongs to no component.
import { ThreadkeepError, call, send, type Schemas } from "../api/client.ts";
import { followRun, join } from "../api/stream.ts";
import { applyEvent, newTurn, type Turn } from "../events/turn.ts";
import type { RunEvent } from "../events/types.ts";
import { outdate } from "../stores/memories.ts";
import { branchPoints, type BranchPoint, type Checkpoint } from "./branches.ts";
import { exchangesOf, lastTurn, type Exchange } from "./exchanges.ts";
import { sharesSent } from "./files.ts";
import type { TurnRecord } from "./turn-memory.ts";

const historyLimit = 100;
const flushMilliseconds = 40;
const learningMilliseconds = 1_500;
const mostReadings = 5;
const renderShare = 4; // a long reply is shown less often, so that the page has time for the user

export type Connection = "idle" | "connecting" | "streaming" | "reconnecting";

export interface ChatState {
  threadId: string | null;
  loading: boolean;
  /** What the whole view shows instead of the messages: the thread is gone, or cannot be read. */
  failure: ThreadkeepError | null;
  /** Why the last action failed; the messages stay. */
  notice: ThreadkeepError | null;
  exchanges: readonly Exchange[];
  connection: Connection;
  /** The turns of this branch that can be edited, by the number of messages before them. */
  branches: ReadonlyMap<number, BranchPoint>;
  /** The checkpoint that the next turn extends; null: the newest. */
  tip: string | null;
  /** What the server keeps of the turns, by the id of the user's message. */
  records: ReadonlyMap<string, TurnRecord>;
  /** Why the records cannot be read. */
  recordsFailure: ThreadkeepError | null;
}

const empty: ChatState = {
  threadId: null,
  loading: false,
  failure: null,
  notice: null,
  exchanges: [],
  connection: "idle",
  branches: new Map(),
  tip: null,
  records: new Map(),
  recordsFailure: null,
};

/** Whether a run is at work on the conversation; while the server learns from one that has ended, the user goes on. */
export function isAtWork({ connection, exchanges }: ChatState): boolean {
  const last = exchanges.at(-1);
  return connection !== "idle" && last !== undefined && lastTurn(last).status === "running";
}

export interface Question {
  text: string;
  files: readonly File[];
  memory: boolean;
}

export class Chat {
  #state: ChatState = empty;
  readonly #listeners = new Set<() => void>();
  readonly #onThread: (chat: Chat) => void;
  #checkpoints: readonly Checkpoint[] = [];
  #reading = new AbortController();
  #following: Promise<void> = Promise.resolve();
  #waiting: RunEvent[] = [];
  #sent = 0;
  #opening = false;
  /** What the user has written and not sent. */
  draft = "";

  /**
   * @param threadId The thread; null: a new conversation.
   * @param onThread Called when the thread of a new conversation is known, and when a turn has ended.
   */
  constructor(threadId: string | null, onThread: (chat: Chat) => void) {
    this.#onThread = onThread;
    this.#state = { ...empty, threadId, loading: threadId !== null };
    if (threadId !== null) void this.#open();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): ChatState => this.#state;

  get isRunning(): boolean {
    return isAtWork(this.#state);
  }

  /** Read the messages anew, also those of a run that another page began. */
  reload(): void {
    if (this.#state.threadId !== null && this.#state.connection === "idle" && !this.#opening) void this.#open();
  }

  /** Show that the conversation does not exist any more. */
  markDeleted(): void {
    this.#reading.abort();
    this.#change({ failure: new ThreadkeepError(404, "thread_not_found", ""), loading: false, connection: "idle" });
  }

  /** Ask a question; with *extending*, in place of an earlier turn. */
  async ask(question: Question, extending: string | null = this.#state.tip): Promise<void> {
    if (!(await this.#leaveEnded())) return;
    const { threadId, exchanges } = this.#state;
    const before = exchanges.slice(0, this.#placeOf(extending));
    const asked: Exchange = {
      key: `sent-${++this.#sent}`,
      messageId: null,
      question: question.text,
      files: question.files.map((file) => file.name),
      sent: question.files.map(() => 0),
      place: null,
      turns: [newTurn],
      seen: true,
      memory: question.memory,
      settled: false,
    };
    this.#change({ exchanges: [...before, asked], connection: "connecting", notice: null, branches: new Map() });
    const key = crypto.randomUUID();
    const [address, init] = this.#request(question, threadId, extending, key);
    const onSent = asked.files.length === 0 ? undefined : (bytes: number) => this.#showSent(asked.key, sharesSent(question.files, bytes));
    await this.#follow((signal) => send("post", address, { ...init, signal }, onSent));
  }

  /** Ask an earlier question again, with the same or another text: the turns stay, as a branch. */
  async edit(exchange: Exchange, text: string): Promise<void> {
    const point = exchange.place === null ? undefined : this.#state.branches.get(exchange.place);
    if (point !== undefined) await this.ask({ text, files: [], memory: exchange.memory }, point.base);
  }

  /** Show another branch. */
  async show(tip: string): Promise<void> {
    if (this.#state.threadId === null || !(await this.#leaveEnded())) return;
    await this.#attempt(async () => {
      const { messages } = await call("get", "/api/threads/{thread_id}/messages", {
        path: { thread_id: this.#state.threadId ?? "" },
        query: { checkpoint_id: tip },
      });
      this.#change({ exchanges: this.#withSeen(exchangesOf(messages)), tip, branches: this.#branches(tip) });
      await this.#readRecords(tip);
    });
  }

  /** Answer what the last run asks. */
  async answer(answer: unknown): Promise<void> {
    if (!(await this.#leaveEnded())) return;
    const exchange = this.#state.exchanges.at(-1);
    const runId = exchange && lastTurn(exchange).runId;
    if (exchange === undefined || !runId) return;
    this.#replaceLast({ ...exchange, turns: [...exchange.turns.map(withoutQuestions), newTurn], settled: false });
    this.#change({ connection: "connecting", notice: null });
    const key = crypto.randomUUID();
    const address = `/api/runs/${encodeURIComponent(runId)}/resume`;
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
    await this.#follow((signal) => send("post", address, { headers, body: JSON.stringify({ answer }), signal }));
  }

  /** Stop the run that is in progress. */
  async stop(): Promise<void> {
    const exchange = this.#state.exchanges.at(-1);
    const runId = exchange && lastTurn(exchange).runId;
    if (runId) await this.#attempt(() => call("post", "/api/runs/{run_id}/cancel", { path: { run_id: runId } }));
  }

  /** Read what memory had to do with the turns anew. */
  reloadRecords(): void {
    void this.#readRecords(this.#state.tip);
  }

  clearNotice(): void {
    this.#change({ notice: null });
  }

  async #open(): Promise<void> {
    this.#opening = true;
    try {
      await this.#read();
    } finally {
      this.#opening = false;
    }
  }

  async #read(): Promise<void> {
    const path = { thread_id: this.#state.threadId ?? "" };
    try {
      const [{ messages }, state] = await Promise.all([
        call("get", "/api/threads/{thread_id}/messages", { path }),
        call("get", "/api/threads/{thread_id}/state", { path }),
      ]);
      const exchanges = this.#withSeen(exchangesOf(messages));
      const last = exchanges.at(-1);
      const runId = last === undefined || last.seen ? null : state.run_id;
      const run = runId ? await call("get", "/api/runs/{run_id}", { path: { run_id: runId } }) : null;
      this.#change({ exchanges, loading: false, failure: null, tip: null });
      if (run !== null && last !== undefined) await this.#resume(run, state, last);
      await Promise.all([this.#learnBranches(), this.#readRecords(null)]);
    } catch (error) {
      if (!(error instanceof ThreadkeepError)) throw error;
      this.#change({ loading: false, failure: error });
    }
  }

  /** Read what memory had to do with the turns; again for a while, if one of them is not learnt from yet. */
  async #readRecords(tip: string | null, readings = 1): Promise<void> {
    const path = { thread_id: this.#state.threadId ?? "" };
    try {
      const { turns } = await call("get", "/api/threads/{thread_id}/turns", { path, query: tip === null ? {} : { checkpoint_id: tip } });
      const before = this.#state.records;
      const learnt = turns.filter((one) => before.get(one.message_id)?.state === "pending").flatMap((one) => one.learnt);
      outdate(learnt.map((one) => one.memory_id));
      this.#change({ records: new Map(turns.map((one) => [one.message_id, one])), recordsFailure: null });
      if (readings === mostReadings || turns.every((one) => one.state !== "pending")) return;
      setTimeout(() => void this.#readRecords(tip, readings + 1), learningMilliseconds);
    } catch (error) {
      if (!(error instanceof ThreadkeepError)) throw error;
      this.#change({ recordsFailure: error });
    }
  }

  /** Show the newest run of a thread, which began before this page did. What a run that is done left is in the thread. */
  async #resume(run: Schemas["RunBody"], state: Schemas["StateBody"], exchange: Exchange): Promise<void> {
    if (run.status === "unknown") this.#showQuestions(run.run_id, state, exchange);
    else if (run.status !== "done") await this.#rejoin(run.run_id, exchange);
  }

  /** Show the events of a run in place of what the thread has of it. */
  async #rejoin(runId: string, exchange: Exchange): Promise<void> {
    this.#replaceLast({ ...exchange, turns: [newTurn], seen: true, settled: false });
    this.#change({ connection: "connecting" });
    await this.#follow((signal) => join(runId, null, signal));
  }

  #showQuestions(runId: string, { interrupts }: Schemas["StateBody"], exchange: Exchange): void {
    const asked = interrupts.map((one) => ({ id: String(one["id"]), value: one["value"] }));
    const turns = exchange.turns.map((turn) => ({ ...turn, runId, status: "interrupted" as const, interrupts: asked }));
    this.#replaceLast({ ...exchange, turns });
  }

  /** Follow a run to the end of what it tells. */
  #follow(begin: (signal: AbortSignal) => Promise<Response>): Promise<void> {
    this.#following = this.#showEvents(begin);
    return this.#following;
  }

  /** Stop waiting for what is learnt from a turn that has ended: the thread tells it later. Return whether it has. */
  async #leaveEnded(): Promise<boolean> {
    if (this.isRunning) return false;
    if (this.#state.connection !== "idle") {
      this.#reading.abort();
      await this.#following;
    }
    return !this.isRunning;
  }

  async #showEvents(begin: (signal: AbortSignal) => Promise<Response>): Promise<void> {
    this.#reading = new AbortController();
    const { signal } = this.#reading;
    let reading = true;
    let timer = setTimeout(show, flushMilliseconds);
    const flush = () => this.#flush();
    async function show() {
      const began = performance.now();
      flush();
      await new Promise((resolve) => setTimeout(resolve)); // by then the page has rendered it
      if (reading) timer = setTimeout(show, Math.max(flushMilliseconds, (performance.now() - began) * renderShare));
    }
    const onEvent = (event: RunEvent) => void this.#waiting.push(event);
    const onConnected = (connected: boolean) => this.#change({ connection: connected ? "streaming" : "reconnecting" });
    try {
      await followRun(() => begin(signal), { onEvent, onConnected }, signal);
    } catch (error) {
      if (!(error instanceof ThreadkeepError)) throw error;
      this.#change({ notice: error });
    } finally {
      clearTimeout(timer);
      reading = false;
      this.#flush();
      this.#end();
    }
  }

  #showSent(key: string, sent: readonly number[]): void {
    const exchange = this.#state.exchanges.at(-1);
    if (exchange?.key === key) this.#replaceLast({ ...exchange, sent });
  }

  /** Apply the events that came since the last time, all at once: a fast model sends hundreds in a second. */
  #flush(): void {
    const events = this.#waiting.splice(0);
    const exchange = this.#state.exchanges.at(-1);
    if (events.length === 0 || exchange === undefined) return;
    const before = lastTurn(exchange);
    const turn = events.reduce(applyEvent, before);
    outdate(turn.learnt.slice(before.learnt.length).map((one) => one.memory_id));
    this.#replaceLast({ ...exchange, messageId: turn.messageIds[0] ?? exchange.messageId, turns: [...exchange.turns.slice(0, -1), turn] });
    if (this.#state.threadId === null && turn.threadId !== null) {
      this.#change({ threadId: turn.threadId });
      this.#onThread(this);
    }
    if (before.status === "running" && turn.status !== "running") void this.#afterTurn();
  }

  #end(): void {
    const exchange = this.#state.exchanges.at(-1);
    if (exchange !== undefined && lastTurn(exchange).status === "running") {
      if (lastTurn(exchange).runId === null && exchange.turns.length === 1) {
        this.#change({ exchanges: this.#state.exchanges.slice(0, -1), connection: "idle" }); // nothing of it was kept
        return;
      }
      const turns = [...exchange.turns.slice(0, -1), { ...lastTurn(exchange), status: "error" as const }];
      this.#replaceLast({ ...exchange, turns });
      void this.#afterTurn();
    }
    if (exchange !== undefined) this.#replaceLast({ ...(this.#state.exchanges.at(-1) ?? exchange), settled: true });
    this.#change({ connection: "idle" });
    this.#onThread(this);
    if (this.#state.threadId !== null) void this.#readRecords(this.#state.tip);
  }

  /** A turn has ended: it is the newest of its thread. */
  async #afterTurn(): Promise<void> {
    const exchange = this.#state.exchanges.at(-1);
    if (this.#state.threadId === null || exchange === undefined) return;
    this.#change({ tip: null });
    await this.#attempt(async () => {
      if (lastTurn(exchange).reset !== null) await this.#readMessages();
      await this.#learnBranches();
    });
  }

  async #readMessages(): Promise<void> {
    const path = { thread_id: this.#state.threadId ?? "" };
    const { messages } = await call("get", "/api/threads/{thread_id}/messages", { path });
    this.#change({ exchanges: this.#withSeen(exchangesOf(messages)) });
  }

  /** Read the newest checkpoints, so that turns can be edited and branches shown. */
  async #learnBranches(): Promise<void> {
    const path = { thread_id: this.#state.threadId ?? "" };
    const { checkpoints } = await call("get", "/api/threads/{thread_id}/history", { path, query: { limit: historyLimit } });
    if (this.isRunning) return; // the end of that turn reads them again
    this.#checkpoints = checkpoints;
    const branches = this.#branches(this.#state.tip);
    const places = [...branches.keys()];
    const known = this.#state.exchanges.slice(-places.length);
    const offset = this.#state.exchanges.length - known.length;
    const exchanges = this.#state.exchanges.map((one, index) =>
      index < offset ? one : { ...one, place: places[index - offset] ?? one.place },
    );
    this.#change({ branches, exchanges });
  }

  #branches(tip: string | null): ReadonlyMap<number, BranchPoint> {
    return new Map(branchPoints(this.#checkpoints, tip ?? undefined).map((point) => [point.messages, point]));
  }

  /** Return how many exchanges stay in front of a turn that extends a checkpoint. */
  #placeOf(base: string | null): number {
    const { exchanges, branches } = this.#state;
    const place = exchanges.findIndex((one) => one.place !== null && branches.get(one.place)?.base === base);
    return base === null || place < 0 ? exchanges.length : place;
  }

  /** Keep what this page has seen of exchanges that were read anew. */
  #withSeen(exchanges: readonly Exchange[]): Exchange[] {
    const seen = new Map(this.#state.exchanges.filter((one) => one.seen).map((one) => [one.messageId, one]));
    return exchanges.map((one) => {
      const known = one.messageId === null ? undefined : seen.get(one.messageId);
      return known === undefined || lastTurn(known).reset !== null ? withSeenMemory(one, known) : { ...known, place: one.place };
    });
  }

  #request(question: Question, threadId: string | null, extending: string | null, key: string): [string, RequestInit] {
    const fields: Record<string, string> = { message: question.text, memory: question.memory ? "on" : "off" };
    if (threadId !== null) fields["thread_id"] = threadId;
    if (threadId !== null && extending !== null) fields["checkpoint_id"] = extending;
    const headers = { "Idempotency-Key": key };
    if (question.files.length === 0) {
      const body = JSON.stringify(fields);
      return ["/api/chat/stream", { headers: { ...headers, "Content-Type": "application/json" }, body }];
    }
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    for (const file of question.files) form.append("files", file);
    return ["/api/chat/stream_files", { headers, body: form }];
  }

  async #attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ThreadkeepError)) throw error;
      this.#change({ notice: error });
    }
  }

  #replaceLast(exchange: Exchange): void {
    this.#change({ exchanges: [...this.#state.exchanges.slice(0, -1), exchange] });
  }

  #change(changes: Partial<ChatState>): void {
    this.#state = { ...this.#state, ...changes };
    for (const listener of this.#listeners) listener();
  }
}

function withoutQuestions(turn: Turn): Turn {
  return { ...turn, interrupts: [] };
}

/** After a reset the text comes from the thread, and what was recalled and learnt from the events before and behind. */
function withSeenMemory(exchange: Exchange, seen: Exchange | undefined): Exchange {
  if (seen === undefined) return exchange;
  const { recalled, learnt, proposals, recorded, runId } = lastTurn(seen);
  const turns = exchange.turns.map((turn) => ({ ...turn, recalled, learnt, proposals, recorded, runId }));
  return { ...exchange, key: seen.key, turns, seen: true };
}
