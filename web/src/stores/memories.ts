// What the user does with memories; every view that shows one sees the change.
import { ThreadkeepError, call, type Schemas } from "../api/client.ts";
import { texts } from "../texts.ts";
import { Store } from "./store.ts";
import { attempt, showToast } from "./toasts.ts";

export type Memory = Schemas["MemoryBody"];
export type Proposal = Schemas["ProposalBody"];

/** What is known about a memory since this page was loaded; null: it is forgotten. */
export const memories = new Store<ReadonlyMap<string, Memory | null>>(new Map());

function note(memoryId: string, memory: Memory | null): void {
  noteAll([[memoryId, memory]]);
}

/** Note memories as they are; an answer that came late does not replace a newer one. */
function noteAll(answers: readonly (readonly [string, Memory | null])[]): void {
  memories.update((known) => {
    const isOlder = (id: string, memory: Memory | null) => memory !== null && memory.revision < (known.get(id)?.revision ?? 0);
    return new Map([...known, ...answers.filter(([id, memory]) => !isOlder(id, memory))]);
  });
}

/** Forget what is known about memories that a turn has just written. */
export function outdate(memoryIds: readonly string[]): void {
  if (memoryIds.some((one) => memories.get().has(one))) memories.update((known) => new Map([...known].filter(([id]) => !memoryIds.includes(id))));
}

/** Read a memory, also one that was forgotten meanwhile. */
export async function readMemory(memoryId: string): Promise<Memory | null> {
  try {
    const memory = await call("get", "/api/memories/{memory_id}", { path: { memory_id: memoryId } });
    note(memoryId, memory);
    return memory;
  } catch (error) {
    if (error instanceof ThreadkeepError && error.status === 404) note(memoryId, null);
    else throw error;
    return null;
  }
}

const mostAtOnce = 100;

/** Read memories that are not known yet, or all of them anew; those that are not there any more are forgotten. */
export async function readMemories(memoryIds: readonly string[], anew = false): Promise<void> {
  const wanted = [...new Set(memoryIds)].filter((one) => anew || !memories.get().has(one)).slice(0, mostAtOnce);
  if (wanted.length === 0) return;
  const answer = await call("get", "/api/memories", { query: { memory_id: wanted } });
  const found = new Map(answer.memories.map((one) => [one.memory_id, one]));
  noteAll(wanted.map((one) => [one, found.get(one) ?? null]));
}

/** What would be removed with a memory, and how many messages would still say it. */
export interface Removal {
  others: readonly Memory[];
  stillIn: number;
}

/** Return what would go with a memory; null: it is gone already. */
export async function removalOf(memoryId: string): Promise<Removal | null> {
  const memory = await readMemory(memoryId);
  if (memory === null) return null;
  const gone = await call("delete", "/api/memories/{memory_id}", { path: { memory_id: memoryId }, query: { dry: true }, ifMatch: memory.revision });
  const others = gone.memory_ids.filter((one) => one !== memoryId).slice(0, mostAtOnce);
  const answer = others.length === 0 ? { memories: [] } : await call("get", "/api/memories", { query: { memory_id: others } });
  return { others: answer.memories, stillIn: gone.still_in.length };
}

export async function correctMemory(memoryId: string, text: string): Promise<void> {
  await change(memoryId, async (memory) => {
    await correct(memory, text);
    showToast(texts.corrected, { label: texts.undo, run: () => void change(memoryId, (now) => correct(now, memory.text)) });
  });
}

async function correct(memory: Memory, text: string): Promise<void> {
  const corrected = await call("patch", "/api/memories/{memory_id}", {
    path: { memory_id: memory.memory_id },
    body: { text, approved: memory.kind === "procedural" },
    ifMatch: memory.revision,
  });
  note(memory.memory_id, corrected);
}

export async function forgetMemory(memoryId: string): Promise<void> {
  await change(memoryId, async (memory) => {
    const path = { memory_id: memoryId };
    const gone = await call("delete", "/api/memories/{memory_id}", { path, ifMatch: memory.revision });
    for (const one of gone.memory_ids) note(one, null);
    showToast(gone.still_in.length === 0 ? texts.forgotten : `${texts.forgotten}. ${texts.stillIn(gone.still_in.length)}`);
  });
}

export async function pinMemory(memoryId: string, pinned: boolean): Promise<void> {
  await change(memoryId, async (memory) => {
    const path = { memory_id: memoryId };
    await call("post", "/api/memories/{memory_id}/pin", { path, body: { pinned }, ifMatch: memory.revision });
    await readMemory(memoryId);
  });
}

/** Forget a memory, and keep no more statements of its kind from its source; undo takes the rule back. */
export async function neverRemember(memoryId: string): Promise<void> {
  let before: string | null = null;
  await change(memoryId, async (memory) => {
    const { policy } = await call("get", "/api/me");
    const rule = `${memory.trust}.${memory.kind}=never`;
    const rules = policy.split(",").map((one) => one.trim()).filter((one) => one !== "" && !one.startsWith(`${memory.trust}.${memory.kind}=`));
    await call("patch", "/api/me", { body: { policy: [...rules, rule].join(", ") } });
    before = policy;
  });
  if (before === null) return;
  await forgetMemory(memoryId);
  const policy: string = before;
  showToast(texts.neverDone, { label: texts.undoRule, run: () => void attempt(() => call("patch", "/api/me", { body: { policy } }).then(() => showToast(texts.undone))) });
}

/** Change the memory as it is now; if another change was first, show it as it is and change nothing. */
async function change(memoryId: string, work: (memory: Memory) => Promise<void>): Promise<void> {
  await attempt(async () => {
    const memory = await readMemory(memoryId);
    if (memory === null) return;
    try {
      await work(memory);
    } catch (error) {
      if (!(error instanceof ThreadkeepError) || error.status !== 412) throw error;
      await readMemory(memoryId);
      showToast(texts.changedMeanwhile);
    }
  });
}

/** The proposals that wait; null: not read yet. */
export const inbox = new Store<readonly Proposal[] | null>(null);

/** Whether the proposals could not be read. */
export const inboxAway = new Store(false);

/** Decided here: an answer that the server gave before may come after. */
const decided = new Set<string>();

export async function loadInbox(): Promise<void> {
  const read = await attempt(async () => {
    const { proposals } = await call("get", "/api/proposals", { query: { limit: 100 } });
    inbox.set(proposals.filter((one) => !decided.has(one.proposal_id)));
  });
  inboxAway.set(!read);
}

/** Take decided proposals out of the inbox. */
export function removeDecided(proposalIds: readonly string[]): void {
  for (const one of proposalIds) decided.add(one);
  inbox.update((waiting) => waiting?.filter((one) => !decided.has(one.proposal_id)) ?? null);
}

/** Whether another text of a proposal can be approved; a proposal about two memories has none of its own. */
export function canEdit(proposal: Proposal): boolean {
  return proposal.action !== "supersede" && proposal.action !== "forget";
}

/** Approve or reject a proposal; with a text, that text is approved. */
export async function decide(proposalId: string, approve: boolean, text?: string): Promise<void> {
  await attempt(async () => {
    const path = { proposal_id: proposalId };
    const body = { approve, ...(text === undefined ? {} : { text }) };
    const bothStay = !approve && inbox.get()?.find((one) => one.proposal_id === proposalId)?.action === "supersede";
    await call("post", "/api/proposals/{proposal_id}/decide", { path, body });
    removeDecided([proposalId]);
    showToast(approve ? texts.approved : bothStay ? texts.bothStay : texts.rejected);
  });
}
