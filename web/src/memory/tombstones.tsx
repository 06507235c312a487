// Statements that are not learnt again, each of which may be lifted.
import { useCallback } from "react";
import { call } from "../api/client.ts";
import { Dialog } from "../components/controls.tsx";
import { Away } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { dayOf, texts } from "../texts.ts";

export function Tombstones({ canLift, onClose }: { canLift: boolean; onClose: () => void }) {
  const list = useLoaded(useCallback(() => call("get", "/api/tombstones"), []));
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
      {list.value?.tombstones.length === 0 ? <p>{texts.noTombstones}</p> : null}
      <ul className="rows">
        {list.value?.tombstones.map((one) => (
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
