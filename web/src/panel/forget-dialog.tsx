// Asks before a memory is forgotten, and says what goes with it.
import { useCallback } from "react";
import { Confirm } from "../components/controls.tsx";
import { Away } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { removalOf } from "../stores/memories.ts";
import { texts } from "../texts.ts";

interface ForgetDialogProps {
  memoryId: string;
  title: string;
  text: string;
  action: string;
  onConfirm: () => void;
  onClose: () => void;
}

export function ForgetDialog({ memoryId, title, text, action, onConfirm, onClose }: ForgetDialogProps) {
  const removal = useLoaded(useCallback(() => removalOf(memoryId), [memoryId]));
  return (
    <Confirm title={title} text={text} action={action} onConfirm={onConfirm} onClose={onClose}>
      {removal.error === null ? null : <Away what={texts.goesAlongPart} onRetry={removal.reload} />}
      {removal.value === null ? (
        <p className="quiet">{removal.error === null ? texts.loading : null}</p>
      ) : (
        <>
          {removal.value.others.length === 0 ? null : (
            <>
              <p>{texts.goesAlong}</p>
              <ul className="goes-along">
                {removal.value.others.map((one) => (
                  <li key={one.memory_id}>{one.text}</li>
                ))}
              </ul>
            </>
          )}
          <p className="quiet">{texts.messagesStay(removal.value.stillIn)}</p>
        </>
      )}
    </Confirm>
  );
}
