// One memory with what can be done with it; views that show the same memory change together.
import { useState, type ReactNode } from "react";
import { Confirm, Menu, TextDialog, type MenuItem } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { chatAddress, memoryAddress } from "../route.ts";
import { correctMemory, forgetMemory, memories, neverRemember, pinMemory } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { exactTime, spokenTime, texts } from "../texts.ts";

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
  /** Whether the card leads to the memory in full. */
  links?: boolean;
  children?: ReactNode;
}

type Question = "correct" | "forget" | "never" | null;

export function MemoryCard({ memoryId, text, kind, source, canChange, links = false, children }: MemoryCardProps) {
  const known = useStore(memories).get(memoryId);
  const [asks, setAsks] = useState<Question>(null);
  const now = known?.text ?? text;
  if (known === null) {
    return (
      <li className="memory gone">
        <p>
          <del>{text}</del>
        </p>
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
        <p>
          {now === text ? null : <del>{text}</del>} {now}
        </p>
        {canChange ? <Menu label={texts.memoryMenu(now)} items={items} /> : null}
      </div>
      {children}
      <p className="memory-source">
        {pinned ? <Icon name="pin" /> : null}
        {source === null ? null : <SourceLine source={source} speaker={speaker} />}
        {links ? <a href={memoryAddress(memoryId)}>{texts.details}</a> : null}
      </p>
      {asks === "correct" ? (
        <TextDialog
          title={texts.correctTitle}
          label={texts.memoryText}
          text={now}
          action={texts.save}
          rows={3}
          onSubmit={(written) => void correctMemory(memoryId, written)}
          onClose={() => setAsks(null)}
        />
      ) : null}
      {asks === "forget" ? (
        <Confirm
          title={texts.forgetTitle}
          text={texts.forgetText(now)}
          action={texts.forget}
          onConfirm={() => void forgetMemory(memoryId)}
          onClose={() => setAsks(null)}
        />
      ) : null}
      {asks === "never" ? (
        <Confirm
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

function SourceLine({ source, speaker }: { source: ShownSource; speaker: string }) {
  const said = source.at === null ? speaker : texts.said(speaker, spokenTime(source.at));
  return (
    <>
      <span title={source.at === null ? undefined : exactTime(source.at)}>{said}</span>
      {source.threadId === null ? null : <a href={chatAddress(source.threadId, source.messageId)}>{texts.source}</a>}
    </>
  );
}
