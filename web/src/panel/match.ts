// Why a memory matched a question, and how closely, in words.
import { texts } from "../texts.ts";

const near = 0.6;
const fair = 0.35;
const recentMilliseconds = 24 * 60 * 60 * 1000;
const shortest = 4;

/** Return how close a memory is to the question, in one word. */
export function closeness(score: number): string {
  if (score >= near) return texts.closely;
  return score >= fair ? texts.fairly : texts.loosely;
}

/** Return why a memory matched: the words it shares with the question, or its meaning; and whether it is recent. */
export function reasons(question: string, memory: string, saidAt: string | null, now: number = Date.now()): string[] {
  const asked = new Set(wordsOf(question));
  const shared = [...new Set(wordsOf(memory))].filter((word) => asked.has(word));
  const found = [shared.length > 0 ? texts.sameWords(shared) : texts.sameMeaning];
  if (saidAt !== null && now - Date.parse(saidAt) < recentMilliseconds) found.push(texts.recent);
  return found;
}

function wordsOf(text: string): string[] {
  return (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => word.length >= shortest);
}
