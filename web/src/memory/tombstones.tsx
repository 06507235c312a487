// Statements that are not learnt again, each of which may be lifted.
import { useCallback } from "react";
import { type Schemas, call } from "../api/client.ts";
import { Dialog } from "../components/controls.tsx";
import { Away } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { dayOf, texts } from "../texts.ts";

type Tombstone = Schemas["TombstoneBody"];

async function allTombstones(): Promise<Tombstone[]> {
  const all: Tombstone[] = [];
  for (let cursor: string | null = null; ; ) {
    const query: { limit: number; cursor?: string } = { limit: 100, ...(cursor === null ? {} : { cursor }) };
    const page: { tombstones: Tombstone[]; cursor: string | null } = await call("get", "/api/tombstones", { query });
    all.push(...page.tombstones);
    if (page.cursor === null) return all;
    cursor = page.cursor;
  }
}

export function Tombstones({ canLift, onClose }: { canLift: boolean; onClose: () => void }) {
  const list = useLoaded(useCallback(allTombstones, []));
  async function lift(tombstoneId: string) {
    await attempt(async () => {
      await call("delete", "/api/tombstones/{tombstone_id}", { path: { tombstone_id: tombstoneId } });
      showToast(texts.lifted);
      list.reload();
    });
  }
  return (
    <Dialog title={texts.tombstones} onClose={onClose}>
      <p className="quiet">{texts.tombstonesHint}</p>
      {list.error === null ? null : <Away what={texts.tombstones} onRetry={list.reload} />}
      {list.value?.length === 0 ? <p>{texts.noTombstones}</p> : null}
      <ul className="rows">
        {list.value?.map((one) => (
          <li key={one.tombstone_id}>
            <span className="grow">
              {one.text ?? texts.tombstoneText}
              <span className="quiet"> {`${texts.causes[one.cause] ?? one.cause} · ${dayOf(one.at)}`}</span>
            </span>
            {canLift ? (
              <button type="button" onClick={() => void lift(one.tombstone_id)}>
                {texts.lift}
              </button>
            ) : null}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
