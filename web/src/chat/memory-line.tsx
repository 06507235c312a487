// The line under each reply: what was recalled, what was learnt, and what waits.
import { inbox } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { texts } from "../texts.ts";
import { lastTurn, type Exchange } from "./exchanges.ts";
import { learntFrom, recalledBy, turnMemories, waitingFrom } from "./turn-memory.ts";

interface MemoryLineProps {
  exchange: Exchange;
  shown: boolean;
  onShow: () => void;
}

export function MemoryLine({ exchange, shown, onShow }: MemoryLineProps) {
  const waiting = useStore(inbox);
  const stored = useStore(turnMemories);
  const words = lineOf(exchange, learntFrom(exchange, stored).length, waitingFrom(exchange, waiting ?? []).length);
  if (words === null) return <span className="grow" />;
  return (
    <button type="button" className="memory-line" aria-pressed={shown} title={texts.showMemory} onClick={onShow}>
      {words}
    </button>
  );
}

function lineOf(exchange: Exchange, learnt: number, waits: number): string | null {
  if (!exchange.memory) return texts.memoryOff;
  const turn = lastTurn(exchange);
  const parts: string[] = [];
  const recalled = recalledBy(exchange);
  if (recalled !== null) {
    const away = recalled.memories.length === 0 && recalled.degraded.some((cause) => cause === "storage" || cause === "timeout");
    if (away) return texts.memoryAway;
    parts.push(recalled.memories.length === 0 ? texts.nothingRecalled : texts.recalledCount(recalled.memories.length));
  } else if (exchange.seen && turn.status !== "running") parts.push(texts.nothingRecalled);
  if (learnt > 0) parts.push(texts.learntCount(learnt));
  else if (exchange.seen && turn.recorded && turn.status === "done" && !exchange.settled) parts.push(texts.learning);
  if (waits > 0) parts.push(texts.waitsCount(waits));
  return parts.length === 0 ? null : parts.join(" · ");
}
