// What is kept where and how long, who receives text; and the ways out: opt out, export, erase.
import { useCallback, useId, useState } from "react";
import { call, send, type Schemas } from "../api/client.ts";
import { Dialog } from "../components/controls.tsx";
import { DataTable } from "../components/data-table.tsx";
import { Away, Page, Part } from "../components/page.tsx";
import { Receipt } from "../components/receipt.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { endSession, leavePage, type User } from "../session.ts";
import { useStore } from "../stores/store.ts";
import { threads } from "../stores/threads.ts";
import { attempt } from "../stores/toasts.ts";
import { formatNumber, texts } from "../texts.ts";

type Me = Schemas["MeBody"];
type Privacy = Schemas["PrivacyBody"];

export default function PrivacyView({ user }: { user: User }) {
  const me = useLoaded(useCallback(() => call("get", "/api/me"), []));
  const privacy = useLoaded(useCallback(() => call("get", "/api/me/privacy"), []));
  const canChange = user.scopes.has("memory:write");
  return (
    <Page title={texts.privacy}>
      <div className="detail">
        {me.value === null || !canChange ? null : <OptOut me={me.value} onChange={me.reload} />}
        <Part title={texts.kept}>
          {me.error === null ? null : <Away what={texts.remembering} onRetry={me.reload} />}
          {privacy.error === null ? null : <Away what={texts.kept} onRetry={privacy.reload} />}
          {me.value === null || privacy.value === null ? null : <Kept me={me.value} privacy={privacy.value} />}
        </Part>
        <Part title={texts.receivers}>{privacy.value === null ? null : <Receivers privacy={privacy.value} />}</Part>
        {me.value === null || !canChange ? null : <Rules me={me.value} onChange={me.reload} />}
        <Export />
        {canChange ? <Erase user={user} /> : null}
      </div>
    </Page>
  );
}

function Kept({ me, privacy }: { me: Me; privacy: Privacy }) {
  const memories = Object.values(me.memories).reduce((sum, count) => sum + count, 0);
  const [storage, threadStorage] = [privacy.storage, privacy.thread_storage].map((name) => texts.placeOf(name, privacy.encrypted));
  const rows = [
    [texts.keptMemories, memories, storage, texts.untilMemories(privacy.memory_days, privacy.inactive_days)],
    [texts.threads, me.threads, threadStorage, texts.untilThreads(privacy.thread_days)],
    [texts.keptTurns, me.turns_waiting, storage, texts.untilLearnt],
    [texts.keptProposals, me.proposals, storage, texts.untilDecided(privacy.proposal_days)],
    [texts.tombstones, me.tombstones, storage, texts.untilLifted(privacy.tombstone_days)],
    [texts.audit, null, storage, texts.untilErased],
  ] as const;
  return (
    <DataTable
      label={texts.kept}
      head={[texts.what, texts.howMany, texts.where, texts.howLong]}
      rows={rows.map(([what, count, where, until]) => ({ key: what, cells: [what, count === null ? "" : formatNumber(count), where, until] }))}
    />
  );
}

function OptOut({ me, onChange }: { me: Me; onChange: () => void }) {
  const change = (body: Schemas["OptOutBody"]) =>
    attempt(async () => {
      await call("post", "/api/me/opt_out", { body });
      onChange();
    });
  return (
    <Part title={texts.remembering}>
      <label className="switch">
        <input type="checkbox" role="switch" checked={!me.opted_out} onChange={(event) => void change({ out: !event.target.checked })} />
        <span className="track" aria-hidden="true" />
        {texts.optOut}
      </label>
      <p className="quiet">{texts.optOutHint}</p>
      {me.opted_out ? null : <ThreadOptOuts out={me.opted_out_threads} onChange={(thread_id, out) => void change({ thread_id, out })} />}
    </Part>
  );
}

/** The conversations in which nothing is remembered, and a way to add one. */
function ThreadOptOuts({ out, onChange }: { out: readonly string[]; onChange: (threadId: string, out: boolean) => void }) {
  const list = useStore(threads) ?? [];
  const [chosen, setChosen] = useState("");
  const id = useId();
  const titles = new Map(list.map((one) => [one.thread_id, one.title || texts.untitled]));
  const rest = list.filter((one) => !out.includes(one.thread_id));
  return (
    <>
      {out.length === 0 ? null : (
        <ul className="rows" aria-label={texts.optedOutThreads}>
          {out.map((threadId) => {
            const title = titles.get(threadId) ?? threadId;
            return (
              <li key={threadId}>
                <span className="grow">{texts.optedOutThread(title)}</span>
                <button type="button" aria-label={texts.rememberThreadAgain(title)} onClick={() => onChange(threadId, false)}>
                  {texts.rememberAgain}
                </button>
              </li>
            );
          })}
        </ul>
      )}
      {rest.length === 0 ? null : (
        <form
          className="inline-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (chosen !== "") onChange(chosen, true);
            setChosen("");
          }}
        >
          <label htmlFor={id}>{texts.optOutThread}</label>
          <select id={id} value={chosen} onChange={(event) => setChosen(event.target.value)}>
            <option value="">{texts.chooseThread}</option>
            {rest.map((one) => (
              <option key={one.thread_id} value={one.thread_id}>
                {titles.get(one.thread_id)}
              </option>
            ))}
          </select>
          <button type="submit" disabled={chosen === ""}>
            {texts.optOutAction}
          </button>
        </form>
      )}
    </>
  );
}

function Receivers({ privacy }: { privacy: Privacy }) {
  const rows = privacy.data_flows.map((flow) => ({ key: flow.to, cells: [flow.to, flow.gets, flow.leaves_machine] }));
  return <DataTable label={texts.receivers} head={[texts.receiver, texts.receives, texts.leaves]} rows={rows} />;
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

function Export() {
  const [busy, setBusy] = useState(false);
  async function start() {
    setBusy(true);
    await attempt(download);
    setBusy(false);
  }
  return (
    <Part title={texts.exportAll}>
      <p className="quiet">{texts.exportHint}</p>
      <button type="button" disabled={busy} onClick={() => void start()}>
        {busy ? texts.loading : texts.download}
      </button>
    </Part>
  );
}

/** Save everything that is held about the user as a file. */
async function download(): Promise<void> {
  const answer = await send("post", "/api/me/export?file=zip");
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = "threadkeep.zip";
  link.click();
  URL.revokeObjectURL(address);
}

/** Asks for the word, erases, ends the session, and shows the receipt until the user leaves. */
function Erase({ user }: { user: User }) {
  const [asks, setAsks] = useState(false);
  const [typed, setTyped] = useState("");
  const [receipt, setReceipt] = useState<Schemas["ErasedBody"] | null>(null);
  const id = useId();
  const erase = () =>
    attempt(async () => {
      setReceipt(await call("post", "/api/me/erase"));
      await endSession(user);
    });
  const close = () => (receipt === null ? setAsks(false) : leavePage());
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
              <input id={id} value={typed} autoComplete="off" data-autofocus onChange={(event) => setTyped(event.target.value)} />
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
              {user.hasSession ? <p>{texts.signedOutNow}</p> : null}
              <div className="actions">
                <button type="button" className="primary" onClick={close}>
                  {texts.leave}
                </button>
              </div>
            </>
          )}
        </Dialog>
      )}
    </Part>
  );
}
