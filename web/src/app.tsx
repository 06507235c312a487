import { useCallback, useEffect, useState } from "react";
import { Shell } from "./shell.tsx";
import { loadSession, signIn, type SessionState } from "./session.ts";
import { texts } from "./texts.ts";

export function App() {
  const [session, setSession] = useState<SessionState>({ status: "loading" });
  const load = useCallback(() => void loadSession().then(setSession), []);
  useEffect(load, [load]);
  switch (session.status) {
    case "loading":
      return <Notice text={texts.loading} />;
    case "signed-out":
      return <Notice text={texts.signInHint} action={texts.signIn} onAction={() => signIn()} />;
    case "no-sessions":
      return <Notice text={texts.noSessions} />;
    case "unavailable":
      return <Notice text={texts.unavailable} action={texts.tryAgain} onAction={load} />;
    case "signed-in":
      return <Shell user={session.user} />;
  }
}

function Notice({ text, action, onAction }: { text: string; action?: string; onAction?: () => void }) {
  return (
    <main className="notice">
      <h1>{texts.product}</h1>
      <p>{text}</p>
      {action === undefined ? null : (
        <button type="button" className="primary" onClick={onAction}>
          {action}
        </button>
      )}
    </main>
  );
}
