// Beside the conversation: what was used for an answer, what was learnt from the turn, and what waits for the user.
import type { ReactNode } from "react";
import type { Chat } from "../chat/chat.ts";
import type { Exchange } from "../chat/exchanges.ts";
import { learntFrom, recalledBy, turnMemories, waitingFrom } from "../chat/turn-memory.ts";
import { useChatState } from "../chat/use-chats.ts";
import type { RecalledMemory } from "../events/types.ts";
import type { User } from "../session.ts";
import { inbox, type Memory } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { texts } from "../texts.ts";
import { closeness, reasons } from "./match.ts";
import { MemoryCard, type ShownSource } from "./memory-card.tsx";
import { ProposalCard } from "./proposal-card.tsx";

interface MemoryPanelProps {
  chat: Chat;
  /** The exchange that is shown; null: the newest. */
  turnKey: string | null;
  user: User;
}

export function MemoryPanel({ chat, turnKey, user }: MemoryPanelProps) {
  const { exchanges } = useChatState(chat);
  const stored = useStore(turnMemories);
  const waiting = useStore(inbox) ?? [];
  const exchange = exchanges.find((one) => one.key === turnKey) ?? exchanges.at(-1);
  if (exchange === undefined) return <PanelFrame><p className="quiet">{texts.panelEmpty}</p></PanelFrame>;
  const canChange = user.scopes.has("memory:write");
  const learnt = learntFrom(exchange, stored);
  const proposals = waitingFrom(exchange, waiting);
  return (
    <PanelFrame>
      <p className="panel-turn">{exchange.question}</p>
      <Section title={texts.usedForAnswer}>
        <Used exchange={exchange} canChange={canChange} />
      </Section>
      <Section title={texts.learntFromTurn}>
        {learnt.length === 0 ? (
          <p className="quiet">{exchange.settled ? texts.nothingLearnt : texts.learning}</p>
        ) : (
          <ul>
            {learnt.map((one) => (
              <MemoryCard
                key={one.memoryId}
                memoryId={one.memoryId}
                text={one.text}
                kind={one.kind}
                source={sourceOf(stored.find((memory) => memory.memory_id === one.memoryId))}
                canChange={canChange}
                links
              />
            ))}
          </ul>
        )}
      </Section>
      {proposals.length === 0 ? null : (
        <Section title={texts.waitsForYou}>
          <ul>
            {proposals.map((one) => (
              <ProposalCard key={one.proposal_id} proposal={one} canDecide={user.scopes.has("memory:review")} />
            ))}
          </ul>
        </Section>
      )}
    </PanelFrame>
  );
}

function PanelFrame({ children }: { children: ReactNode }) {
  return (
    <div className="panel-frame">
      <h2>{texts.panel}</h2>
      {children}
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Used({ exchange, canChange }: { exchange: Exchange; canChange: boolean }) {
  const recalled = recalledBy(exchange);
  if (recalled === null) return <p className="quiet">{exchange.seen ? texts.nothingUsed : texts.usedUnknown}</p>;
  if (recalled.memories.length === 0) {
    const away = recalled.degraded.some((cause) => cause === "storage" || cause === "timeout");
    return <p className="quiet">{away ? texts.memoryAway : texts.nothingUsed}</p>;
  }
  return (
    <ul>
      {recalled.memories.map((one) => (
        <MemoryCard
          key={one.memory_id}
          memoryId={one.memory_id}
          text={one.text ?? ""}
          kind={one.kind ?? "semantic"}
          source={recalledSource(one)}
          canChange={canChange}
          links
        >
          <p className="why">
            <span className="closeness" title={texts.score(one.score)}>
              {closeness(one.score)}
            </span>
            {[...reasons(exchange.question, one.text ?? "", one.said_at), ...(one.why.earlier ? [texts.earlier] : [])].join(" · ")}
          </p>
        </MemoryCard>
      ))}
    </ul>
  );
}

function recalledSource(one: RecalledMemory): ShownSource {
  return { speaker: one.why.said_by ?? "user", at: one.said_at, threadId: one.thread_id, messageId: one.message_id };
}

export function sourceOf(memory: Memory | undefined): ShownSource | null {
  const source = memory?.sources.at(-1);
  if (source === undefined) return null;
  return { speaker: source.speaker, at: source.at, threadId: source.thread_id, messageId: source.message_id };
}
