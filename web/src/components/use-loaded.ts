// What a view reads when it is shown.
import { useCallback, useEffect, useState } from "react";
import { ThreadkeepError, isSessionOver } from "../api/client.ts";
import { sessionEnded } from "../stores/toasts.ts";

export interface Loaded<T> {
  value: T | null;
  error: ThreadkeepError | null;
  reload: () => void;
}

/** Read a value, and read it again when *read* changes; an answer that comes too late is dropped. */
export function useLoaded<T>(read: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: ThreadkeepError | null }>({ value: null, error: null });
  const [count, setCount] = useState(0);
  useEffect(() => {
    let current = true;
    read().then(
      (value) => current && setState({ value, error: null }),
      (error: unknown) => {
        if (!(error instanceof ThreadkeepError)) throw error;
        if (isSessionOver(error)) sessionEnded.set(true);
        if (current) setState((before) => ({ value: before.value, error }));
      },
    );
    return () => {
      current = false;
    };
  }, [read, count]);
  return { ...state, reload: useCallback(() => setCount((before) => before + 1), []) };
}
