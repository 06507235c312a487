// The words of a message stand below what was learnt from them, and not beside it like another memory.
import type { Memory } from "../stores/memories.ts";

export interface Shown {
  memory: Memory;
  /** In [0, 1], higher is closer; null: nothing was sought. */
  score: number | null;
}

export interface Grouped extends Shown {
  episodes: readonly Memory[];
}

/** Put each episode below the first memory that comes from the same message; one without such a memory stays. */
export function groupEpisodes(shown: readonly Shown[]): Grouped[] {
  const hosts = new Map<string, Memory[]>();
  const groups: { one: Shown; episodes: Memory[] }[] = [];
  for (const one of shown) {
    const episodes: Memory[] = [];
    if (one.memory.kind !== "episodic") for (const message of messagesOf(one.memory)) if (!hosts.has(message)) hosts.set(message, episodes);
    groups.push({ one, episodes });
  }
  const kept = groups.filter(({ one }) => {
    if (one.memory.kind !== "episodic") return true;
    const host = messagesOf(one.memory).map((message) => hosts.get(message)).find((found) => found !== undefined);
    host?.push(one.memory);
    return host === undefined;
  });
  return kept.map(({ one, episodes }) => ({ ...one, episodes }));
}

export interface Row extends Grouped {
  day: string | null;
}

export interface ListRow extends Omit<Row, "memory"> {
  /** null: messages only, which stand in *episodes*. */
  memory: Memory | null;
}

const mostMessages = 10;

/** Put messages that follow each other, and that no memory of the list comes from, into one row. */
export function foldMessages(rows: readonly Row[]): ListRow[] {
  const folded: ListRow[] = [];
  let open: Memory[] | null = null;
  for (const row of rows) {
    if (row.memory.kind !== "episodic") {
      folded.push(row);
      open = null;
    } else if (open !== null && row.day === null && open.length < mostMessages) {
      open.push(row.memory);
    } else {
      open = [row.memory];
      folded.push({ ...row, memory: null, episodes: open });
    }
  }
  return folded;
}

const messagesOf = (memory: Memory): string[] =>
  memory.sources.flatMap((source) => (source.message_id === null ? [] : [`${source.thread_id} ${source.message_id}`]));
