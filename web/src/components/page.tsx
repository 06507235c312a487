// The frame of a view that is no conversation, its parts, and a part that cannot be read.
import type { ReactNode } from "react";
import { Icon, type IconName } from "./icon.tsx";
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

/** Says that a view has nothing to show, and what it will show. */
export function Empty({ icon, title, hint }: { icon: IconName; title: string; hint: string }) {
  return (
    <div className="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      <p>{hint}</p>
    </div>
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
