// Conversations grouped as people look for them: pinned, today, yesterday, earlier days.
import type { Thread } from "../stores/threads.ts";
import { dayOf, texts } from "../texts.ts";

export interface ThreadGroup {
  label: string;
  threads: Thread[];
}

/** Group conversations by the day of their last turn; their order stays. */
export function groupByDay(threads: readonly Thread[], now: number): ThreadGroup[] {
  const groups = new Map<string, Thread[]>();
  for (const thread of [...threads.filter((one) => one.pinned), ...threads.filter((one) => !one.pinned)]) {
    const label = thread.pinned ? texts.pinned : labelOf(thread.last_turn_at ?? thread.created_at, now);
    const group = groups.get(label);
    if (group === undefined) groups.set(label, [thread]);
    else group.push(thread);
  }
  return [...groups].map(([label, list]) => ({ label, threads: list }));
}

function labelOf(at: string | null, now: number): string {
  if (at === null) return texts.today;
  const days = Math.round((midnight(now) - midnight(Date.parse(at))) / (24 * 60 * 60 * 1000));
  if (days <= 0) return texts.today;
  return days === 1 ? texts.yesterday : dayOf(at);
}

const midnight = (time: number): number => new Date(time).setHours(0, 0, 0, 0);
