// The line under each reply: what was recalled, what was learnt, and what waits.
import { inbox } from "../stores/memories.ts";
import { Icon } from "../components/icon.tsx";
import { useStore } from "../stores/store.ts";
import { texts } from "../texts.ts";
import { lastTurn, type Exchange } from "./exchanges.ts";
import { isLearning, learntFrom, recallOf, waitingFrom, type TurnRecord } from "./turn-memory.ts";

interface MemoryLineProps {
  exchange: Exchange;
  record: TurnRecord | undefined;
  shown: boolean;
  onShow: () => void;
}

export function MemoryLine({ exchange, record, shown, onShow }: MemoryLineProps) {
  const waiting = useStore(inbox);
  const words = lineOf(exchange, record, waitingFrom(exchange, waiting ?? []).length);
  if (words === null) return <span className="grow" />;
  return (
    <button type="button" className="memory-line" aria-pressed={shown} title={texts.showMemory} onClick={onShow}>
      <Icon name="memory" />
      {words}
    </button>
  );
}

function lineOf(exchange: Exchange, record: TurnRecord | undefined, waits: number): string | null {
  if (!exchange.memory || record?.memory === false) return texts.memoryOff;
  const parts: string[] = [];
  const recall = recallOf(exchange, record);
  if (recall !== null) {
    if (recall.away) return texts.memoryAway;
    parts.push(recall.memories.length === 0 ? texts.nothingRecalled : texts.recalledCount(recall.memories.length));
  } else if (exchange.seen && lastTurn(exchange).status !== "running") parts.push(texts.nothingRecalled);
  const learnt = learntFrom(exchange, record).filter((one) => one.change !== "known").length;
  if (learnt > 0) parts.push(texts.learntCount(learnt));
  else if (isLearning(exchange, record)) parts.push(texts.learning);
  if (waits > 0) parts.push(texts.waitsCount(waits));
  return parts.length === 0 ? null : parts.join(" · ");
}
