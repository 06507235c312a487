// The row of a virtual list that had the focus last: it stays in the document, with what was written in it.
import { useState, type FocusEvent } from "react";

/** Return what a list keeps mounted, and what to call when a row, which has `data-index`, gets the focus. */
export function useFocusedRow(): [readonly number[], (event: FocusEvent) => void] {
  const [kept, setKept] = useState<readonly number[]>([]);
  function onFocus({ target }: FocusEvent) {
    const index = target.closest<HTMLElement>("[data-index]")?.dataset["index"];
    if (index !== undefined && kept[0] !== Number(index)) setKept([Number(index)]);
  }
  return [kept, onFocus];
}
