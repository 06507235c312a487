// A proposal with what it would replace and why it waits; the user approves, edits or rejects it.
import { useState } from "react";
import { chatAddress } from "../route.ts";
import type { Proposal } from "../stores/memories.ts";
import { texts } from "../texts.ts";
import { Evidence, Quote } from "./evidence.tsx";
import { ProposalActions } from "./proposal-actions.tsx";
import { ProposalText } from "./proposal-text.tsx";

interface ProposalCardProps {
  proposal: Proposal;
  /** The message that it rests on; null: the card reads it. */
  question: string | null;
  canDecide: boolean;
}

export function ProposalCard({ proposal, question, canDecide }: ProposalCardProps) {
  const [edits, setEdits] = useState(false);
  const source = proposal.sources.at(-1);
  return (
    <li className="memory proposal">
      <ProposalText proposal={proposal} edits={edits} onClose={() => setEdits(false)} />
      {question !== null ? (
        <Quote text={question} statement={proposal.text} />
      ) : source?.thread_id ? (
        <Evidence threadId={source.thread_id} messageId={source.message_id} statement={proposal.text} />
      ) : null}
      <p className="quiet">{texts.proposalReason(proposal.reason)}</p>
      <p className="memory-source">
        <span>{texts.speakers[proposal.trust] ?? proposal.trust}</span>
        {source?.thread_id ? <a href={chatAddress(source.thread_id, source.message_id)}>{texts.source}</a> : null}
      </p>
      {canDecide ? <ProposalActions proposal={proposal} edits={edits} onEdit={() => setEdits(true)} /> : null}
    </li>
  );
}
