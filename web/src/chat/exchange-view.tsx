// What the user said, the reply with its tools, and the line that says what memory had to do with it.
import { memo, useState } from "react";
import { IconButton, TextEditor } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { MarkdownText } from "../components/markdown.tsx";
import { replyText, type ReplyPart, type ToolCall } from "../events/turn.ts";
import { texts } from "../texts.ts";
import type { BranchPoint } from "./branches.ts";
import type { Chat } from "./chat.ts";
import { lastTurn, partsOf, type Exchange } from "./exchanges.ts";
import { MemoryLine } from "./memory-line.tsx";
import { QuestionCard } from "./question-card.tsx";
import type { TurnRecord } from "./turn-memory.ts";

interface ExchangeViewProps {
  chat: Chat;
  exchange: Exchange;
  /** Its place in the list. */
  index: number;
  record: TurnRecord | undefined;
  branch: BranchPoint | undefined;
  last: boolean;
  busy: boolean;
  soughtMessage: string | null;
  shown: boolean;
  onShowTurn: (key: string) => void;
}

export const ExchangeView = memo(function ExchangeView(props: ExchangeViewProps) {
  const { chat, exchange, index, record, branch, last, busy, soughtMessage, shown, onShowTurn } = props;
  const turn = lastTurn(exchange);
  const running = turn.status === "running";
  const parts = partsOf(exchange);
  return (
    <article className={`exchange ${shown ? "shown" : ""}`} data-index={index}>
      <UserMessage {...props} sought={soughtMessage !== null && soughtMessage === exchange.messageId} />
      <div className="reply" aria-busy={running}>
        <h2 className="unseen">{texts.agent}</h2>
        {parts.map((part, index) => (
          <Part key={part.kind === "text" ? part.messageId : `${part.call.id}-${index}`} part={part} sought={soughtMessage} />
        ))}
        {running && replyText(turn) === "" ? <p className="thinking">{progressOf(exchange)}</p> : null}
        {turn.status === "cancelled" ? <p className="quiet">{texts.stopped}</p> : null}
        {turn.status === "error" ? <p className="failed">{turn.error === null ? texts.lostTurn : texts.turnFailed(turn.error.message)}</p> : null}
        {last && turn.status === "interrupted"
          ? turn.interrupts.map((one) => (
              <QuestionCard key={one.id} interrupt={one} only={turn.interrupts.length === 1} disabled={busy} onAnswer={(answer) => void chat.answer(answer)} />
            ))
          : null}
        <div className="reply-bar">
          <MemoryLine exchange={exchange} record={record} onShow={() => onShowTurn(exchange.key)} shown={shown} />
          {running ? null : <ReplyActions chat={chat} exchange={exchange} branch={branch} busy={busy} parts={parts} />}
        </div>
      </div>
    </article>
  );
});

/** Before the server has begun the run, files are on their way to it. */
function progressOf(exchange: Exchange): string {
  const files = exchange.files.length;
  return files > 0 && lastTurn(exchange).runId === null ? texts.sendingFiles(files) : texts.thinking;
}

function UserMessage({ chat, exchange, branch, busy, sought }: ExchangeViewProps & { sought: boolean }) {
  const [edits, setEdits] = useState(false);
  const begun = lastTurn(exchange).runId !== null;
  return (
    <div className={`question ${sought ? "sought" : ""}`}>
      <h2 className="unseen">{texts.you}</h2>
      {exchange.files.length === 0 ? null : (
        <ul className="sent-files">
          {exchange.files.map((name, index) => (
            <li key={index}>
              <Icon name="file" />
              {name}
              {begun || exchange.sent[index] === undefined ? null : <span className="quiet">{texts.shareSent(exchange.sent[index])}</span>}
            </li>
          ))}
        </ul>
      )}
      {edits ? (
        <TextEditor
          label={texts.editTitle}
          text={exchange.question}
          action={texts.editAction}
          onSubmit={(text) => void chat.edit(exchange, text)}
          onClose={() => setEdits(false)}
        />
      ) : (
        <p>{exchange.question}</p>
      )}
      <div className="question-bar">
        {exchange.memory ? null : <span className="badge" title={texts.notRememberedHint}>{texts.notRemembered}</span>}
        {branch === undefined || branch.tips.length < 2 ? null : <Branches chat={chat} branch={branch} busy={busy} />}
        {branch === undefined ? null : <IconButton icon="edit" label={texts.edit} disabled={busy} onClick={() => setEdits(true)} />}
      </div>
    </div>
  );
}

function Branches({ chat, branch, busy }: { chat: Chat; branch: BranchPoint; busy: boolean }) {
  const [before, after] = [branch.tips[branch.place - 1], branch.tips[branch.place + 1]];
  return (
    <span className="branches">
      <IconButton icon="left" label={texts.previousBranch} disabled={busy || before === undefined} onClick={() => void chat.show(before ?? "")} />
      <span>{texts.branch(branch.place + 1, branch.tips.length)}</span>
      <IconButton icon="right" label={texts.nextBranch} disabled={busy || after === undefined} onClick={() => void chat.show(after ?? "")} />
    </span>
  );
}

interface ReplyActionsProps {
  chat: Chat;
  exchange: Exchange;
  branch: BranchPoint | undefined;
  busy: boolean;
  parts: readonly ReplyPart[];
}

function ReplyActions({ chat, exchange, branch, busy, parts }: ReplyActionsProps) {
  const [copied, setCopied] = useState(false);
  const text = parts.map((part) => (part.kind === "text" ? part.text : "")).join("\n\n").trim();
  return (
    <span className="reply-actions">
      {text === "" ? null : (
        <IconButton
          icon={copied ? "check" : "copy"}
          label={copied ? texts.copied : texts.copy}
          onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
        />
      )}
      {branch === undefined ? null : (
        <IconButton icon="retry" label={texts.regenerate} disabled={busy} onClick={() => void chat.edit(exchange, exchange.question)} />
      )}
    </span>
  );
}

function Part({ part, sought }: { part: ReplyPart; sought: string | null }) {
  if (part.kind === "tool") return <ToolLine call={part.call} />;
  return (
    <div className={part.messageId === sought ? "sought" : ""}>
      <MarkdownText text={part.text} />
    </div>
  );
}

/** A call of a tool, on one line that unfolds. */
function ToolLine({ call }: { call: ToolCall }) {
  const state = call.result === null ? texts.toolRunning : call.result.status === "error" ? texts.toolFailed : "";
  return (
    <details className="tool">
      <summary>
        <Icon name="tool" />
        {texts.tool(call.name)}
        {state === "" ? null : <span className="badge">{state}</span>}
      </summary>
      {call.args === null ? null : (
        <>
          <h3>{texts.arguments}</h3>
          <pre tabIndex={0}>{JSON.stringify(call.args, null, 2)}</pre>
        </>
      )}
      {call.result === null ? null : (
        <>
          <h3>{texts.result}</h3>
          <pre tabIndex={0}>{call.result.text}</pre>
        </>
      )}
    </details>
  );
}
