// The branches of a thread, computed from its checkpoints.
import type { Schemas } from "../api/client.ts";

export type Checkpoint = Pick<Schemas["StateBody"], "checkpoint_id" | "parent_checkpoint_id" | "next" | "messages">;

/** A turn on the way to a checkpoint, and the turns that were tried in its place. */
export interface BranchPoint {
  /** How many messages the thread had before the turn. */
  messages: number;
  /** The checkpoint that the turn extends; another turn that extends it is a branch. */
  base: string;
  /** The newest checkpoint of each branch, oldest branch first. */
  tips: readonly string[];
  /** Which of them this turn belongs to. */
  place: number;
}

/**
 * Return the turns that led to a checkpoint, oldest first.
 *
 * @param checkpoints The checkpoints of the thread, newest first; of a long thread, the newest ones.
 * @param tip The checkpoint; undefined: the newest.
 */
export function branchPoints(checkpoints: readonly Checkpoint[], tip?: string): BranchPoint[] {
  const byId = new Map(checkpoints.map((one) => [one.checkpoint_id ?? "", one]));
  const starts = checkpoints.filter(isStart).toReversed();
  const points: BranchPoint[] = [];
  for (const step of pathTo(tip ?? checkpoints[0]?.checkpoint_id ?? "", byId)) {
    if (!isStart(step) || isReplaced(step, points)) continue;
    const base = baseOf(step, byId);
    const rivals = starts.filter((one) => baseOf(one, byId) === base);
    points.push({
      messages: step.messages,
      base,
      tips: rivals.map((one) => newestBelow(one, checkpoints, byId, rivals)),
      place: rivals.indexOf(step),
    });
  }
  return points.toReversed();
}

/** A turn begins with a checkpoint whose next node is the start of the graph. */
function isStart(checkpoint: Checkpoint): boolean {
  return checkpoint.next.includes("__start__");
}

/** A first turn that was edited extends the beginning of the turn that it replaces. */
function isReplaced(step: Checkpoint, later: readonly BranchPoint[]): boolean {
  return later.at(-1)?.base === step.checkpoint_id;
}

/** What a turn extends: its parent; the first turn of a thread has none, so it stands for itself. */
function baseOf(start: Checkpoint, byId: ReadonlyMap<string, Checkpoint>): string {
  const parent = byId.get(start.parent_checkpoint_id ?? "");
  if (parent !== undefined && isStart(parent) && parent.messages === start.messages) return baseOf(parent, byId);
  return start.parent_checkpoint_id ?? start.checkpoint_id ?? "";
}

function* pathTo(id: string, byId: ReadonlyMap<string, Checkpoint>): Generator<Checkpoint> {
  for (let step = byId.get(id); step !== undefined; step = byId.get(step.parent_checkpoint_id ?? "")) yield step;
}

function newestBelow(
  start: Checkpoint,
  newestFirst: readonly Checkpoint[],
  byId: ReadonlyMap<string, Checkpoint>,
  rivals: readonly Checkpoint[],
): string {
  const found = newestFirst.find((one) => firstRivalOn(one, byId, rivals) === start);
  return found?.checkpoint_id ?? start.checkpoint_id ?? "";
}

function firstRivalOn(
  checkpoint: Checkpoint,
  byId: ReadonlyMap<string, Checkpoint>,
  rivals: readonly Checkpoint[],
): Checkpoint | undefined {
  for (const step of pathTo(checkpoint.checkpoint_id ?? "", byId)) if (rivals.includes(step)) return step;
  return undefined;
}
