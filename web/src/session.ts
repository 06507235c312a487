// Who uses the page: the session of the browser, or the only user of a server without sessions.
import { ThreadkeepError, call, setCsrfToken } from "./api/client.ts";

export interface User {
  userId: string;
  scopes: ReadonlySet<string>;
  hasSession: boolean;
}

export type SessionState =
  | { status: "loading" | "signed-out" | "no-sessions" }
  | { status: "signed-in"; user: User }
  | { status: "unavailable"; error: ThreadkeepError };

/** Return who is signed in. */
export async function loadSession(): Promise<SessionState> {
  try {
    const session = await call("get", "/auth/session");
    if (session === undefined) return await loadOnlyUser();
    setCsrfToken(session.csrf_token);
    return { status: "signed-in", user: { userId: session.user_id, scopes: new Set(session.scopes), hasSession: true } };
  } catch (error) {
    if (!(error instanceof ThreadkeepError)) throw error;
    return error.status === 401 || error.status === 403 ? { status: "signed-out" } : { status: "unavailable", error };
  }
}

async function loadOnlyUser(): Promise<SessionState> {
  setCsrfToken(null);
  try {
    const me = await call("get", "/api/me");
    return { status: "signed-in", user: { userId: me.user_id, scopes: new Set(me.scopes), hasSession: false } };
  } catch (error) {
    if (!(error instanceof ThreadkeepError)) throw error;
    return error.status === 401 ? { status: "no-sessions" } : { status: "unavailable", error };
  }
}

/** Go to the sign-in of the issuer, and return to this view; or do so in another tab, and keep this page as it is. */
export function signIn(inNewTab = false): void {
  const here = `${location.pathname}${location.hash}`;
  const address = `/auth/login?${new URLSearchParams({ return_to: here })}`;
  if (inNewTab) window.open(address, "_blank", "noopener");
  else location.assign(address);
}

/** End the session, if there is one. */
export async function endSession(user: User): Promise<void> {
  if (user.hasSession) await call("post", "/auth/logout");
  setCsrfToken(null);
}

/** Leave the page so that nothing of the user stays in it. */
export function leavePage(): void {
  history.replaceState(null, "", "/");
  location.reload();
}
