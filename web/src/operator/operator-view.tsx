// How the service does: its parts, the queue, degraded turns and growth; and owners by label, counted, without texts.
import { useCallback, useEffect } from "react";
import { call, type Schemas } from "../api/client.ts";
import { DataTable } from "../components/data-table.tsx";
import { Facts } from "../components/facts.tsx";
import { Away, Page, Part } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { operatorAddress } from "../route.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { dayOf, exactTime, formatNumber, formatSize, texts } from "../texts.ts";
import { BarChart, ColumnChart, Numbers, type Bar } from "./charts.tsx";
import { OwnerPart } from "./owner-part.tsx";

type Status = Schemas["StatusBody"];

const queueSeconds = 3;

export default function OperatorView({ label }: { label: string | null }) {
  const status = useLoaded(useCallback(() => call("get", "/api/admin/status"), []));
  const queue = useLoaded(useCallback(() => call("get", "/api/admin/queue"), []));
  const moves = queue.value?.turns.some((turn) => turn.state !== "dead") ?? false;
  useEffect(() => {
    if (!moves) return;
    const timer = setInterval(queue.reload, queueSeconds * 1000);
    return () => clearInterval(timer);
  }, [moves, queue.reload]);
  function refresh() {
    status.reload();
    queue.reload();
  }
  return (
    <Page
      title={texts.operator}
      actions={
        <button type="button" onClick={refresh}>
          {texts.refresh}
        </button>
      }
    >
      <div className="detail">
        {status.error === null ? null : <Away what={texts.parts} onRetry={status.reload} />}
        {status.value === null ? null : <Service status={status.value} />}
        <Part title={texts.unlearntTurns}>
          {queue.error === null ? null : <Away what={texts.unlearntTurns} onRetry={queue.reload} />}
          {queue.value === null ? null : <Queue queue={queue.value} onChange={refresh} />}
        </Part>
        {status.value === null ? null : <Figures status={status.value} />}
        <OwnerPart label={label} />
      </div>
    </Page>
  );
}

function Service({ status }: { status: Status }) {
  const { learning } = status;
  const parts = status.parts.map((part) => ({
    key: `${part.part} ${part.name}`,
    cells: [
      texts.partNames[part.part] ?? part.part,
      part.name,
      <span className={`badge ${part.error === null ? "" : "bad"}`}>{part.error === null ? texts.answers : texts.isAway(part.error)}</span>,
      part.milliseconds === null ? texts.none : texts.milliseconds(part.milliseconds),
    ],
  }));
  return (
    <>
      <Part title={texts.parts}>
        <DataTable label={texts.parts} head={[texts.part, texts.name, texts.stateLabel, texts.latency]} rows={parts} />
      </Part>
      <Part title={texts.queue}>
        {learning === null ? (
          <p className="failed">{texts.storageAway}</p>
        ) : (
          <Facts
            rows={[
              [texts.queueWaiting, formatNumber(learning.waiting)],
              [texts.queueRunning, formatNumber(learning.running)],
              [texts.queueDead, formatNumber(learning.dead)],
              [texts.oldestWaits, texts.seconds(learning.oldest_seconds)],
              [texts.meanLag(learning.learnt), learning.learnt === 0 ? texts.none : texts.seconds(learning.mean_lag_seconds)],
              [texts.longestLag, learning.learnt === 0 ? texts.none : texts.seconds(learning.longest_lag_seconds)],
              [texts.runsActive, formatNumber(status.runs_active)],
              [texts.runsWaiting, formatNumber(status.runs_waiting)],
            ]}
          />
        )}
      </Part>
    </>
  );
}

function Queue({ queue, onChange }: { queue: Schemas["OwnedQueueBody"]; onChange: () => void }) {
  const dead = queue.turns.filter((turn) => turn.state === "dead").map((turn) => turn.turn_id);
  const retry = (turn_ids: string[]) =>
    attempt(async () => {
      const { total } = await call("post", "/api/admin/queue/retry", { body: { turn_ids } });
      showToast(texts.retried(total));
      onChange();
    });
  if (queue.turns.length === 0) return <p className="quiet">{texts.noTurnWaits}</p>;
  return (
    <>
      <DataTable
        label={texts.unlearntTurns}
        head={[texts.owner, texts.stateLabel, texts.reason, texts.tries, texts.recordedAt, texts.retry]}
        rows={queue.turns.map((turn) => ({
          key: turn.turn_id,
          cells: [
            <a href={operatorAddress(turn.label)}>{turn.user_id}</a>,
            <span className={`badge ${turn.state === "dead" ? "bad" : ""}`}>{texts.turnStates[turn.state] ?? turn.state}</span>,
            turn.reason ?? "",
            formatNumber(turn.tries),
            exactTime(turn.recorded_at),
            turn.state === "running" ? (
              ""
            ) : (
              <button type="button" aria-label={texts.retryTurn(turn.user_id, exactTime(turn.recorded_at))} onClick={() => void retry([turn.turn_id])}>
                {texts.retry}
              </button>
            ),
          ],
        }))}
      />
      {queue.total > queue.turns.length ? <p className="quiet">{texts.shownOf(queue.turns.length, queue.total)}</p> : null}
      {dead.length < 2 ? null : (
        <button type="button" onClick={() => void retry(dead)}>
          {texts.retryAll(dead.length)}
        </button>
      )}
    </>
  );
}

const barsOf = (counts: Readonly<Record<string, number>>, names: Readonly<Record<string, string>>): Bar[] =>
  Object.entries(counts).map(([name, value]) => ({ name: names[name] ?? name, value }));

function Figures({ status }: { status: Status }) {
  return (
    <>
      <Part title={texts.degradedTurns}>
        <p className="quiet">{texts.sinceStart}</p>
        <BarChart label={texts.causeLabel} unit={texts.turns} bars={barsOf(status.degraded, texts.degradedCauses)} />
      </Part>
      <Part title={texts.endedTurns}>
        <BarChart label={texts.outcomeLabel} unit={texts.turns} bars={barsOf(status.turns, texts.outcomes)} />
      </Part>
      <Part title={texts.growth}>{status.learning === null ? <p className="failed">{texts.storageAway}</p> : <Growth samples={status.growth} />}</Part>
    </>
  );
}

function Growth({ samples }: { samples: Status["growth"] }) {
  const bars = samples.map((sample) => ({ name: dayOf(sample.at), value: sample.items }));
  const rows = samples.map((sample) => [
    dayOf(sample.at),
    formatNumber(sample.owners),
    formatNumber(sample.items),
    sample.size_bytes === null ? texts.unknown : formatSize(sample.size_bytes),
  ]);
  return (
    <>
      <p className="quiet">{texts.growthHint}</p>
      <ColumnChart label={texts.items} unit={texts.items} bars={bars} />
      <Numbers label={texts.growth} head={[texts.day, texts.owners, texts.items, texts.size]} rows={rows.toReversed()} />
    </>
  );
}
