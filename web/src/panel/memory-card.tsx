// One memory with what can be done with it; views that show the same memory change together.
import { useState, type ReactNode } from "react";
import { Menu, TextEditor, type MenuItem } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { chatAddress, memoryAddress } from "../route.ts";
import { correctMemory, forgetMemory, memories, neverRemember, pinMemory } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { exactTime, spokenTime, texts } from "../texts.ts";
import { ForgetDialog } from "./forget-dialog.tsx";

export interface ShownSource {
  speaker: string;
  at: string | null;
  threadId: string | null;
  messageId: string | null;
}

interface MemoryCardProps {
  memoryId: string;
  text: string;
  kind: string;
  source: ShownSource | null;
  canChange: boolean;
  /** What it said before it was changed. */
  before?: string | null;
  /** What it is, such as a fact; it stands before its source. */
  label?: string;
  /** Whether the card leads to the memory in full. */
  links?: boolean;
  children?: ReactNode;
}

type Question = "correct" | "forget" | "never" | null;

export function MemoryCard({ memoryId, text, kind, source, canChange, before = null, label, links = false, children }: MemoryCardProps) {
  const known = useStore(memories).get(memoryId);
  const [asks, setAsks] = useState<Question>(null);
  const now = known === undefined || known === null || (known.kind === "episodic" && isExcerpt(text, known.text)) ? text : known.text;
  if (known === null) {
    return (
      <li className="memory gone">
        {text === "" ? null : (
          <p>
            <del>{text}</del>
          </p>
        )}
        <p className="quiet">{texts.forgotten}</p>
      </li>
    );
  }
  const pinned = known?.pinned ?? false;
  const speaker = texts.speakers[source?.speaker ?? "user"] ?? texts.speakers["user"] ?? "";
  const items: MenuItem[] = [
    { label: texts.correct, icon: "edit", onSelect: () => setAsks("correct") },
    { label: pinned ? texts.unpin : texts.pin, icon: "pin", onSelect: () => void pinMemory(memoryId, !pinned) },
    { label: texts.forget, icon: "trash", danger: true, onSelect: () => setAsks("forget") },
    { label: texts.never, icon: "never", danger: true, onSelect: () => setAsks("never") },
  ];
  return (
    <li className="memory">
      <div className="memory-head">
        {asks === "correct" ? (
          <TextEditor
            label={texts.memoryText}
            text={now}
            action={texts.save}
            onSubmit={(written) => void correctMemory(memoryId, written)}
            onClose={() => setAsks(null)}
          />
        ) : (
          <p>
            {before === null || before === now ? null : <del>{before}</del>} {now === text || text === before ? null : <del>{text}</del>} {now}
          </p>
        )}
        {canChange ? <Menu label={texts.memoryMenu(now)} items={items} /> : null}
      </div>
      {children}
      <p className="memory-source">
        {pinned ? <Icon name="pin" /> : null}
        {label === undefined ? null : <span>{label}</span>}
        {source === null ? null : <SourceLine source={source} speaker={speaker} />}
        {links ? <a href={memoryAddress(memoryId)}>{texts.details}</a> : null}
      </p>
      {asks === "forget" ? (
        <ForgetDialog
          memoryId={memoryId}
          title={texts.forgetTitle}
          text={texts.forgetText(now)}
          action={texts.forget}
          onConfirm={() => void forgetMemory(memoryId)}
          onClose={() => setAsks(null)}
        />
      ) : null}
      {asks === "never" ? (
        <ForgetDialog
          memoryId={memoryId}
          title={texts.neverTitle}
          text={texts.neverText(texts.kinds[known?.kind ?? kind] ?? kind, speaker)}
          action={texts.neverAction}
          onConfirm={() => void neverRemember(memoryId)}
          onClose={() => setAsks(null)}
        />
      ) : null}
    </li>
  );
}

/** The model is shown of a long event the sentences that matter. */
function isExcerpt(text: string, whole: string): boolean {
  return text.length < whole.length && text.split(/(?<=[.!?])\s+/).every((sentence) => whole.includes(sentence));
}

function SourceLine({ source, speaker }: { source: ShownSource; speaker: string }) {
  const said = source.at === null ? speaker : texts.said(speaker, spokenTime(source.at));
  return (
    <>
      <span title={source.at === null ? undefined : exactTime(source.at)}>{said}</span>
      {source.threadId === null ? null : <a href={chatAddress(source.threadId, source.messageId)}>{texts.source}</a>}
    </>
  );
}
