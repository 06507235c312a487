// Whether the server has the version that this page was built with.
import { Store } from "../stores/store.ts";

/** Replaced by the build. */
declare const THREADKEEP_VERSION: string;

/** Whether an answer came from a server of another version, older or newer. */
export const isOtherVersion = new Store(false);

/** Note the version that an answer names; one that names none has passed no gateway. */
export function noteVersion(answer: Response): void {
  const version = answer.headers.get("X-Threadkeep-Version");
  if (version !== null && (version !== THREADKEEP_VERSION) !== isOtherVersion.get()) isOtherVersion.set(!isOtherVersion.get());
}
