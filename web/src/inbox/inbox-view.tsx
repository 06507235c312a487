// What waits for the user's decision, with the message it rests on; keys decide without the mouse.
import { useEffect, useRef, useState } from "react";
import { call } from "../api/client.ts";
import { Dialog } from "../components/controls.tsx";
import { Away, Empty, Page } from "../components/page.tsx";
import { Evidence } from "../panel/evidence.tsx";
import { ProposalActions } from "../panel/proposal-actions.tsx";
import { ProposalText } from "../panel/proposal-text.tsx";
import { chatAddress } from "../route.ts";
import type { User } from "../session.ts";
import { canEdit, decide, inbox, inboxAway, loadInbox, removeDecided, type Proposal } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { dayOf, texts } from "../texts.ts";

export default function InboxView({ user }: { user: User }) {
  const known = useStore(inbox);
  const waiting = known ?? [];
  const away = useStore(inboxAway);
  const [place, setPlace] = useState(0);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [edits, setEdits] = useState<string | null>(null);
  const [keys, setKeys] = useState(false);
  const [answers, setAnswers] = useState<readonly string[]>([]);
  const list = useRef<HTMLUListElement>(null);
  const canDecide = user.scopes.has("memory:review");
  const here = Math.min(place, waiting.length - 1);
  const current = waiting[here];

  useEffect(() => void loadInbox(), []);
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input:not([type=checkbox]), textarea, dialog, [role=menu]")) return;
      const move = { j: 1, k: -1 }[event.key];
      if (event.key === "?") setKeys(true);
      else if (current === undefined) return;
      else if (move !== undefined) focusRow(Math.max(0, Math.min(waiting.length - 1, here + move)));
      else if (event.key === "x") toggle(current.proposal_id);
      else if (!canDecide) return;
      else if (event.key === "a") void decide(current.proposal_id, true);
      else if (event.key === "r") void decide(current.proposal_id, false);
      else if (event.key === "e" && canEdit(current)) setEdits(current.proposal_id);
      else return;
      event.preventDefault();
    }
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });

  function focusRow(next: number) {
    setPlace(next);
    list.current?.querySelectorAll<HTMLElement>(":scope > li")[next]?.focus();
  }

  function toggle(proposalId: string) {
    const all = new Set(selected);
    if (!all.delete(proposalId)) all.add(proposalId);
    setSelected(all);
  }

  async function decideSelected(approve: boolean) {
    const chosen = waiting.filter((one) => selected.has(one.proposal_id)).slice(0, 100);
    await attempt(async () => {
      const { decided } = await call("post", "/api/proposals/decide", {
        body: { choices: chosen.map((one) => ({ proposal_id: one.proposal_id, approve })) },
      });
      const failed = decided.filter((one) => one.error !== null).length;
      removeDecided(decided.filter((one) => one.error === null).map((one) => one.proposal_id));
      showToast(texts.decidedSome(decided.length - failed, failed));
      setAnswers(decided.map((one, index) => texts.decision(one.error === null, approve, chosen[index]?.text ?? "")));
      setSelected(new Set());
    });
    await loadInbox();
  }

  return (
    <Page
      title={texts.inbox}
      actions={
        <>
          {selected.size === 0 || !canDecide ? null : (
            <>
              <span className="quiet">{texts.selected(selected.size)}</span>
              <button type="button" onClick={() => void decideSelected(false)}>
                {texts.rejectAll}
              </button>
              <button type="button" className="primary" onClick={() => void decideSelected(true)}>
                {texts.approveAll}
              </button>
            </>
          )}
          {waiting.length === 0 ? null : (
            <button type="button" className="with-keyboard" onClick={() => setKeys(true)}>
              {texts.keys}
            </button>
          )}
        </>
      }
    >
      {away ? <Away what={texts.inbox} onRetry={() => void loadInbox()} /> : null}
      {known?.length === 0 && !away ? <Empty icon="inbox" title={texts.inboxEmpty} hint={texts.inboxEmptyHint} /> : null}
      {answers.length === 0 ? null : (
        <ul className="decisions" aria-label={texts.decisions}>
          {answers.map((answer, index) => (
            <li key={index}>{answer}</li>
          ))}
        </ul>
      )}
      <ul ref={list} className="proposals">
        {waiting.map((one, index) => (
          <ProposalRow
            key={one.proposal_id}
            proposal={one}
            current={index === here}
            selected={selected.has(one.proposal_id)}
            canDecide={canDecide}
            onFocus={() => setPlace(index)}
            onToggle={() => toggle(one.proposal_id)}
            edits={edits === one.proposal_id}
            onEdit={(starts) => setEdits(starts ? one.proposal_id : null)}
          />
        ))}
      </ul>
      {keys ? (
        <Dialog title={texts.keys} onClose={() => setKeys(false)}>
          <p>{texts.inboxHint}</p>
        </Dialog>
      ) : null}
    </Page>
  );
}

interface ProposalRowProps {
  proposal: Proposal;
  current: boolean;
  selected: boolean;
  canDecide: boolean;
  onFocus: () => void;
  onToggle: () => void;
  edits: boolean;
  onEdit: (starts: boolean) => void;
}

function ProposalRow({ proposal, current, selected, canDecide, edits, onFocus, onToggle, onEdit }: ProposalRowProps) {
  const source = proposal.sources.at(-1);
  return (
    <li tabIndex={-1} className={`memory proposal-row ${current ? "current" : ""}`} onFocus={onFocus}>
      <input type="checkbox" checked={selected} onChange={onToggle} aria-label={texts.select(proposal.text)} />
      <div className="grow">
        <ProposalText proposal={proposal} edits={edits} onClose={() => onEdit(false)} />
        {source?.thread_id ? <Evidence threadId={source.thread_id} messageId={source.message_id} statement={proposal.text} /> : null}
        <p className="memory-source">
          <span>{texts.speakers[proposal.trust] ?? proposal.trust}</span>
          <span>{texts.proposalReason(proposal.reason)}</span>
          <span>{texts.expires(dayOf(proposal.expires_at))}</span>
          {source?.thread_id ? <a href={chatAddress(source.thread_id, source.message_id)}>{texts.source}</a> : null}
        </p>
      </div>
      {canDecide ? <ProposalActions icons proposal={proposal} edits={edits} onEdit={() => onEdit(true)} /> : null}
    </li>
  );
}
