// The ways to decide on a proposal: buttons with words, or with icons where there is little room.
import { IconButton } from "../components/controls.tsx";
import { canEdit, decide, type Proposal } from "../stores/memories.ts";
import { texts } from "../texts.ts";

interface ProposalActionsProps {
  proposal: Proposal;
  icons?: boolean;
  /** Whether its text is being edited, which has buttons of its own. */
  edits: boolean;
  onEdit: () => void;
}

export function ProposalActions({ proposal, icons = false, edits, onEdit }: ProposalActionsProps) {
  const approve = () => void decide(proposal.proposal_id, true);
  const reject = () => void decide(proposal.proposal_id, false);
  return icons ? (
    <div className="row-actions" hidden={edits}>
      <IconButton icon="check" label={texts.approve} onClick={approve} />
      {canEdit(proposal) ? <IconButton icon="edit" label={texts.edit} onClick={onEdit} /> : null}
      <IconButton icon="close" label={texts.reject} onClick={reject} />
    </div>
  ) : (
    <div className="actions" hidden={edits}>
      <button type="button" onClick={reject}>
        {texts.reject}
      </button>
      {canEdit(proposal) ? (
        <button type="button" onClick={onEdit}>
          {texts.edit}
        </button>
      ) : null}
      <button type="button" className="primary" onClick={approve}>
        {texts.approve}
      </button>
    </div>
  );
}
