// The frame of a view that is no conversation, its parts, and a part that cannot be read.
import type { ReactNode } from "react";
import { texts } from "../texts.ts";

export function Page({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <main id="main" className="page" aria-label={title} tabIndex={-1}>
      <header className="page-head">
        <h1>{title}</h1>
        <span className="grow" />
        {actions}
      </header>
      {children}
    </main>
  );
}

export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** Says which part cannot be read. */
export function Away({ what, onRetry }: { what: string; onRetry: () => void }) {
  return (
    <p className="failed" role="alert">
      {texts.partAway(what)}{" "}
      <button type="button" onClick={onRetry}>
        {texts.tryAgain}
      </button>
    </p>
  );
}
