// What is kept, how long, who receives text; and the ways out: opt out, export, erase.
import { useCallback, useId, useState, type ReactNode } from "react";
import { call, send, type Schemas } from "../api/client.ts";
import { Dialog } from "../components/controls.tsx";
import { Away, Page } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { leavePage, type User } from "../session.ts";
import { attempt } from "../stores/toasts.ts";
import { formatNumber, texts } from "../texts.ts";
import { zip } from "./zip.ts";

type Me = Schemas["MeBody"];

export default function PrivacyView({ user }: { user: User }) {
  const me = useLoaded(useCallback(() => call("get", "/api/me"), []));
  const privacy = useLoaded(useCallback(() => call("get", "/api/me/privacy"), []));
  const canChange = user.scopes.has("memory:write");
  return (
    <Page title={texts.privacy}>
      <div className="detail">
        <Part title={texts.kept}>
          {me.error === null ? null : <Away onRetry={me.reload} />}
          {me.value === null ? null : <Kept me={me.value} />}
        </Part>
        {me.value === null || !canChange ? null : <OptOut me={me.value} onChange={me.reload} />}
        <Part title={texts.howLong}>
          {privacy.error === null ? null : <Away onRetry={privacy.reload} />}
          {privacy.value === null ? null : (
            <>
              <p>{texts.forInactive(privacy.value.inactive_days)}</p>
              <p>{texts.forProposals(privacy.value.proposal_days)}</p>
              <p>{texts.forTombstones(privacy.value.tombstone_days)}</p>
            </>
          )}
        </Part>
        <Part title={texts.receivers}>{privacy.value === null ? null : <Receivers flows={privacy.value.data_flows} />}</Part>
        {me.value === null || !canChange ? null : <Rules me={me.value} onChange={me.reload} />}
        <Part title={texts.exportAll}>
          <p className="quiet">{texts.exportHint}</p>
          <button type="button" onClick={() => void attempt(download)}>
            {texts.download}
          </button>
        </Part>
        {canChange ? <Erase user={user} /> : null}
      </div>
    </Page>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Kept({ me }: { me: Me }) {
  const memories = Object.values(me.memories).reduce((sum, count) => sum + count, 0);
  return (
    <ul>
      <li>{texts.keptCounts(memories, me.threads)}</li>
      <li>{texts.keptProposals(me.proposals, me.tombstones)}</li>
      <li>{texts.keptTurns(me.turns_waiting)}</li>
    </ul>
  );
}

function OptOut({ me, onChange }: { me: Me; onChange: () => void }) {
  const change = (remember: boolean) =>
    attempt(async () => {
      await call("post", "/api/me/opt_out", { body: { out: !remember } });
      onChange();
    });
  return (
    <section>
      <label className="switch">
        <input type="checkbox" role="switch" checked={!me.opted_out} onChange={(event) => void change(event.target.checked)} />
        <span className="track" aria-hidden="true" />
        {texts.optOut}
      </label>
      <p className="quiet">{texts.optOutHint}</p>
    </section>
  );
}

function Receivers({ flows }: { flows: readonly Schemas["DataFlowBody"][] }) {
  return (
    <div className="table" tabIndex={0} role="group" aria-label={texts.receivers}>
      <table>
        <thead>
          <tr>
            <th scope="col">{texts.receiver}</th>
            <th scope="col">{texts.receives}</th>
            <th scope="col">{texts.leaves}</th>
          </tr>
        </thead>
        <tbody>
          {flows.map((flow) => (
            <tr key={flow.to}>
              <td>{flow.to}</td>
              <td>{flow.gets}</td>
              <td>{flow.leaves_machine}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Rules({ me, onChange }: { me: Me; onChange: () => void }) {
  const rules = me.policy.split(",").map((one) => one.trim()).filter(Boolean);
  const remove = (rule: string) =>
    attempt(async () => {
      await call("patch", "/api/me", { body: { policy: rules.filter((one) => one !== rule).join(", ") } });
      onChange();
    });
  return (
    <Part title={texts.yourRules}>
      <p className="quiet">{texts.rulesHint}</p>
      {rules.length === 0 ? <p>{texts.noRules}</p> : null}
      <ul className="rows">
        {rules.map((rule) => (
          <li key={rule}>
            <code className="grow">{rule}</code>
            <button type="button" aria-label={texts.removeRule(rule)} onClick={() => void remove(rule)}>
              {texts.remove}
            </button>
          </li>
        ))}
      </ul>
    </Part>
  );
}

/** Save everything that is held about the user as a file. */
async function download(): Promise<void> {
  const answer = await send("post", "/api/me/export");
  const archive = zip({ "threadkeep.jsonl": new Uint8Array(await answer.arrayBuffer()) });
  const address = URL.createObjectURL(new Blob([archive], { type: "application/zip" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "threadkeep.zip";
  link.click();
  URL.revokeObjectURL(address);
}

function Erase({ user }: { user: User }) {
  const [asks, setAsks] = useState(false);
  const [typed, setTyped] = useState("");
  const [receipt, setReceipt] = useState<Schemas["ErasedBody"] | null>(null);
  const id = useId();
  const erase = () => attempt(async () => setReceipt(await call("post", "/api/me/erase")));
  const close = () => (receipt === null ? setAsks(false) : void attempt(() => leavePage(user)));
  return (
    <Part title={texts.eraseAll}>
      <p className="quiet">{texts.eraseHint}</p>
      <button type="button" className="danger" onClick={() => setAsks(true)}>
        {texts.eraseAll}
      </button>
      {!asks ? null : (
        <Dialog title={receipt === null ? texts.eraseAll : texts.receipt} onClose={close}>
          {receipt === null ? (
            <form
              onSubmit={(event) => {
                event.preventDefault();
                if (typed === texts.eraseWord) void erase();
              }}
            >
              <p>{texts.eraseHint}</p>
              <label htmlFor={id}>{texts.eraseLabel(texts.eraseWord)}</label>
              <input id={id} value={typed} autoComplete="off" autoFocus onChange={(event) => setTyped(event.target.value)} />
              <div className="actions">
                <button type="button" onClick={close}>
                  {texts.cancel}
                </button>
                <button type="submit" className="primary danger" disabled={typed !== texts.eraseWord}>
                  {texts.eraseAll}
                </button>
              </div>
            </form>
          ) : (
            <>
              <Receipt receipt={receipt} />
              <div className="actions">
                <button type="button" className="primary" onClick={close}>
                  {user.hasSession ? texts.signOut : texts.leave}
                </button>
              </div>
            </>
          )}
        </Dialog>
      )}
    </Part>
  );
}

function Receipt({ receipt }: { receipt: Schemas["ErasedBody"] }) {
  const rows: [string, string][] = [
    [texts.receiptId, receipt.receipt_id],
    [texts.receiptItems, [...Object.entries(receipt.counts).map(([name, count]) => `${name}: ${formatNumber(count)}`), `${texts.threads}: ${formatNumber(receipt.threads)}`].join(", ")],
    [texts.receiptKept, receipt.kept_in.length === 0 ? texts.receiptNowhere : receipt.kept_in.join(", ")],
  ];
  return (
    <>
      <dl className="facts">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p className="quiet">{texts.receiptHint}</p>
    </>
  );
}
