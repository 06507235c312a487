// The difference of two texts, by words.
export interface Piece {
  kind: "same" | "added" | "removed";
  text: string;
}

/** Return the pieces that lead from one text to another: the longest common sequence of words stays. */
export function diffWords(before: string, after: string): Piece[] {
  const [old, now] = [before.match(/\s+|\S+/g) ?? [], after.match(/\s+|\S+/g) ?? []];
  const lengths = commonLengths(old, now);
  const pieces: Piece[] = [];
  let [at, to] = [0, 0];
  while (at < old.length || to < now.length) {
    if (at < old.length && to < now.length && old[at] === now[to]) add(pieces, "same", old[at++] ?? ""), to++;
    else if (to < now.length && (at === old.length || length(lengths, at, to + 1) > length(lengths, at + 1, to))) add(pieces, "added", now[to++] ?? "");
    else add(pieces, "removed", old[at++] ?? "");
  }
  return pieces;
}

function add(pieces: Piece[], kind: Piece["kind"], text: string): void {
  const last = pieces.at(-1);
  if (last?.kind === kind) last.text += text;
  else pieces.push({ kind, text });
}

function commonLengths(old: readonly string[], now: readonly string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0));
  for (let at = old.length - 1; at >= 0; at--) {
    for (let to = now.length - 1; to >= 0; to--) {
      const row = lengths[at];
      if (row !== undefined) row[to] = old[at] === now[to] ? length(lengths, at + 1, to + 1) + 1 : Math.max(length(lengths, at + 1, to), length(lengths, at, to + 1));
    }
  }
  return lengths;
}

const length = (lengths: readonly number[][], at: number, to: number): number => lengths[at]?.[to] ?? 0;
