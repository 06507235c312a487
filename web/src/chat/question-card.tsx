// What a run asks: a use of a tool to approve, edit or reject, a proposal, or a question with a free answer.
import { useId, useState } from "react";
import type { Interrupt } from "../events/types.ts";
import { texts } from "../texts.ts";
import { questionOf, type ToolQuestion } from "./questions.ts";

interface QuestionCardProps {
  interrupt: Interrupt;
  /** Whether it is the only question of the run; of several, each answer goes with the id of its question. */
  only: boolean;
  disabled: boolean;
  onAnswer: (answer: unknown) => void;
}

export function QuestionCard({ interrupt, only, disabled, onAnswer }: QuestionCardProps) {
  const question = questionOf(interrupt.value);
  const answer = (value: unknown) => onAnswer(only ? value : { [interrupt.id]: value });
  return (
    <section className="question-card" aria-label={texts.question}>
      {question.kind === "tools" ? (
        <ToolQuestions tools={question.tools} disabled={disabled} onAnswer={answer} />
      ) : question.kind === "proposal" ? (
        <>
          <h3>{texts.question}</h3>
          <p>{question.text}</p>
          <p className="quiet">{texts.proposalReason(question.reason)}</p>
          <div className="actions">
            <button type="button" disabled={disabled} onClick={() => answer("reject")}>
              {texts.reject}
            </button>
            <button type="button" className="primary" disabled={disabled} onClick={() => answer("approve")}>
              {texts.approve}
            </button>
          </div>
        </>
      ) : (
        <FreeQuestion text={question.text} disabled={disabled} onAnswer={answer} />
      )}
    </section>
  );
}

interface ToolQuestionsProps {
  tools: readonly ToolQuestion[];
  disabled: boolean;
  onAnswer: (answer: unknown) => void;
}

/** Each call gets a decision; they are sent together, in their order. */
function ToolQuestions({ tools, disabled, onAnswer }: ToolQuestionsProps) {
  const [decisions, setDecisions] = useState<readonly unknown[]>([]);
  const tool = tools[decisions.length];
  if (tool === undefined) return <p className="quiet">{texts.sending}</p>;
  function decide(decision: unknown) {
    const all = [...decisions, decision];
    setDecisions(all);
    if (all.length === tools.length) onAnswer({ decisions: all });
  }
  return <ToolCard key={decisions.length} tool={tool} disabled={disabled} onDecide={decide} />;
}

function ToolCard({ tool, disabled, onDecide }: { tool: ToolQuestion; disabled: boolean; onDecide: (decision: unknown) => void }) {
  const [edited, setEdited] = useState<string | null>(null);
  const [wrong, setWrong] = useState(false);
  const id = useId();
  function send() {
    try {
      onDecide({ type: "edit", edited_action: { name: tool.name, args: JSON.parse(edited ?? "") as unknown } });
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      setWrong(true);
    }
  }
  return (
    <>
      <h3>{texts.questionTool(tool.name)}</h3>
      {tool.description === "" ? null : <p>{tool.description}</p>}
      {edited === null ? (
        <pre tabIndex={0}>{JSON.stringify(tool.args, null, 2)}</pre>
      ) : (
        <>
          <label htmlFor={id}>{texts.editArguments}</label>
          <textarea id={id} rows={6} value={edited} onChange={(event) => setEdited(event.target.value)} autoFocus />
          {wrong ? <p className="failed" role="alert">{texts.notJson}</p> : null}
        </>
      )}
      <div className="actions">
        {tool.allowed.has("reject") ? (
          <button type="button" disabled={disabled} onClick={() => onDecide({ type: "reject" })}>
            {texts.reject}
          </button>
        ) : null}
        {tool.allowed.has("edit") && edited === null ? (
          <button type="button" disabled={disabled} onClick={() => setEdited(JSON.stringify(tool.args, null, 2))}>
            {texts.edit}
          </button>
        ) : null}
        {edited === null ? (
          <button type="button" className="primary" disabled={disabled} onClick={() => onDecide({ type: "approve" })}>
            {texts.approve}
          </button>
        ) : (
          <button type="button" className="primary" disabled={disabled} onClick={send}>
            {texts.send}
          </button>
        )}
      </div>
    </>
  );
}

function FreeQuestion({ text, disabled, onAnswer }: { text: string; disabled: boolean; onAnswer: (answer: unknown) => void }) {
  const [answer, setAnswer] = useState("");
  const id = useId();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (answer.trim() !== "") onAnswer(answer.trim());
      }}
    >
      <h3>{texts.question}</h3>
      <p className="question-text">{text}</p>
      <label htmlFor={id}>{texts.answerLabel}</label>
      <input id={id} value={answer} onChange={(event) => setAnswer(event.target.value)} />
      <div className="actions">
        <button type="submit" className="primary" disabled={disabled || answer.trim() === ""}>
          {texts.answer}
        </button>
      </div>
    </form>
  );
}
