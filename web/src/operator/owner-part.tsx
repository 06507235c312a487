// One owner of the tenant: counts, the audit, and suspending, restoring or erasing with a reason.
import { useCallback, useId, useRef, useState } from "react";
import { ThreadkeepError, call, type Schemas } from "../api/client.ts";
import { Dialog, TextDialog } from "../components/controls.tsx";
import { DataTable } from "../components/data-table.tsx";
import { Facts } from "../components/facts.tsx";
import { Icon } from "../components/icon.tsx";
import { Away } from "../components/page.tsx";
import { Receipt } from "../components/receipt.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { go, operatorAddress } from "../route.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { exactTime, formatNumber, texts } from "../texts.ts";

type Owner = Schemas["OwnerBody"];

const labelMark = "~tk~";

export function OwnerPart({ label }: { label: string | null }) {
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  const find = () =>
    attempt(async () => {
      const asked = field.current?.value.trim() ?? "";
      if (asked === "") return;
      const owner = asked.startsWith(labelMark) ? null : await call("get", "/api/admin/owners", { query: { user_id: asked } });
      go(operatorAddress(owner?.label ?? asked));
    });
  return (
    <section>
      <h2>{texts.owner}</h2>
      <p className="quiet">{texts.ownerHint}</p>
      <form
        className="inline-form"
        onSubmit={(event) => {
          event.preventDefault();
          void find();
        }}
      >
        <label htmlFor={id}>{texts.ownerLabel}</label>
        <input ref={field} id={id} maxLength={1000} autoComplete="off" />
        <button type="submit">{texts.find}</button>
      </form>
      {label === null ? null : <OwnerDetail key={label} label={label} />}
    </section>
  );
}

function OwnerDetail({ label }: { label: string }) {
  const owner = useLoaded(useCallback(() => call("get", "/api/admin/owners/{label}", { path: { label } }), [label]));
  const [changes, setChanges] = useState(0);
  function changed() {
    owner.reload();
    setChanges((count) => count + 1);
  }
  if (owner.error !== null) return isUnknown(owner.error) ? <p className="failed">{texts.ownerUnknown}</p> : <Away what={texts.owner} onRetry={owner.reload} />;
  if (owner.value === null) return <p className="quiet">{texts.loading}</p>;
  return (
    <div className="owner">
      <Counts owner={owner.value} />
      <OwnerActions owner={owner.value} onChange={changed} />
      <Audit key={changes} label={label} />
    </div>
  );
}

const isUnknown = (error: ThreadkeepError) => error.status === 404;

function Counts({ owner }: { owner: Owner }) {
  const memories = Object.entries(owner.memories).map(([kind, count]) => `${texts.kindNames[kind] ?? kind}: ${formatNumber(count)}`);
  return (
    <>
      <h3>
        {owner.user_id} <span className={`badge ${owner.suspended ? "bad" : ""}`}>{owner.suspended ? texts.suspended : texts.active}</span>
      </h3>
      <Facts
        rows={[
          [texts.keptMemories, memories.length === 0 ? formatNumber(0) : memories.join(", ")],
          [texts.threads, formatNumber(owner.threads)],
          [texts.keptProposals, formatNumber(owner.proposals)],
          [texts.tombstones, formatNumber(owner.tombstones)],
          [texts.keptTurns, formatNumber(owner.turns_waiting)],
          [texts.optOut, owner.opted_out ? texts.no : texts.yes],
          [texts.label, <code>{owner.label}</code>],
        ]}
      />
    </>
  );
}

type Action = "suspend" | "restore" | "erase";

function OwnerActions({ owner, onChange }: { owner: Owner; onChange: () => void }) {
  const [asks, setAsks] = useState<Action | null>(null);
  const [receipt, setReceipt] = useState<Schemas["ErasedBody"] | null>(null);
  const act = (action: Action, reason: string) =>
    attempt(async () => {
      const options = { path: { label: owner.label }, body: { reason } };
      if (action === "erase") setReceipt(await call("post", "/api/admin/owners/{label}/erase", options));
      else await call("post", `/api/admin/owners/{label}/${action}`, options);
      showToast(texts.ownerChanged[action]);
      onChange();
    });
  return (
    <>
      <div className="inline-form">
        <button type="button" onClick={() => setAsks(owner.suspended ? "restore" : "suspend")}>
          {owner.suspended ? texts.ownerActions.restore : texts.ownerActions.suspend}
        </button>
        <button type="button" className="danger" onClick={() => setAsks("erase")}>
          {texts.ownerActions.erase}
        </button>
      </div>
      {asks === null ? null : (
        <TextDialog
          title={texts.ownerQuestions[asks](owner.user_id)}
          hint={texts.ownerHints[asks]}
          label={texts.reason}
          text=""
          action={texts.ownerActions[asks]}
          danger={asks !== "restore"}
          maxLength={200}
          onSubmit={(reason) => void act(asks, reason)}
          onClose={() => setAsks(null)}
        />
      )}
      {receipt === null ? null : (
        <Dialog title={texts.receipt} onClose={() => setReceipt(null)}>
          <Receipt receipt={receipt} />
        </Dialog>
      )}
    </>
  );
}

function Audit({ label }: { label: string }) {
  const [words, setWords] = useState("");
  const read = useCallback(() => call("get", "/api/admin/owners/{label}/audit", { path: { label }, query: { q: words } }), [label, words]);
  const audit = useLoaded(read);
  const entries = audit.value?.entries ?? [];
  return (
    <>
      <h3>{texts.auditTitle}</h3>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          setWords(String(new FormData(event.currentTarget).get("words") ?? "").trim());
        }}
      >
        <label className="search">
          <Icon name="search" />
          <input type="search" name="words" maxLength={200} placeholder={texts.searchAudit} aria-label={texts.searchAudit} />
        </label>
        <button type="submit">{texts.find}</button>
      </form>
      {audit.error === null ? null : <Away what={texts.auditTitle} onRetry={audit.reload} />}
      {audit.value !== null && entries.length === 0 ? <p className="quiet">{words === "" ? texts.noAudit : texts.noAuditFound}</p> : null}
      {entries.length === 0 ? null : (
        <DataTable
          label={texts.auditTitle}
          head={[texts.number, texts.time, texts.actor, texts.reason, texts.change]}
          rows={entries.map((entry) => ({
            key: String(entry.number),
            cells: [formatNumber(entry.number), exactTime(entry.at), entry.by, entry.why, entry.changes.map(changeText).join(", ")],
          }))}
        />
      )}
    </>
  );
}

const changeText = (change: Record<string, unknown>) => `${String(change["thing"])} ${String(change["what"])}`;
