// Sentences for screen readers: one polite live region of the page reads them.
type Listener = (sentence: string) => void;

let listener: Listener = () => undefined;

/** Set what shows the sentences; only the live region does. */
export function setAnnouncer(shows: Listener): void {
  listener = shows;
}

/** Have a sentence read aloud when the reader pauses. */
export function announce(sentence: string): void {
  listener(sentence);
}
