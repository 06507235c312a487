// What a proposal would replace and what it says, or the editor of its text.
import { TextEditor } from "../components/controls.tsx";
import { decide, type Proposal } from "../stores/memories.ts";
import { texts } from "../texts.ts";

interface ProposalTextProps {
  proposal: Proposal;
  edits: boolean;
  onClose: () => void;
}

export function ProposalText({ proposal, edits, onClose }: ProposalTextProps) {
  return (
    <>
      {proposal.base_text === null ? null : (
        <p>
          <span className="quiet">{texts.replaces}</span> <del>{proposal.base_text}</del>
        </p>
      )}
      {edits ? (
        <TextEditor
          label={texts.memoryText}
          text={proposal.text}
          action={texts.approve}
          onSubmit={(text) => void decide(proposal.proposal_id, true, text)}
          onClose={onClose}
        />
      ) : (
        <p className="statement">{proposal.text}</p>
      )}
    </>
  );
}
