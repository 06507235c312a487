// The words of a message that a proposal rests on.

export interface Marked {
  text: string;
  marked: boolean;
}

const shortest = 3;

/** Return a text in pieces; the words that a statement has, too, are marked. */
export function markWords(text: string, statement: string): Marked[] {
  const known = new Set((statement.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => word.length >= shortest));
  const pieces: Marked[] = [];
  for (const piece of text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) ?? []) {
    const marked = known.has(piece.toLowerCase());
    const last = pieces.at(-1);
    if (last?.marked === marked) last.text += piece;
    else pieces.push({ text: piece, marked });
  }
  return pieces;
}
