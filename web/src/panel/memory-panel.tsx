// Beside the conversation: what was used for an answer, what was learnt from the turn, and what waits for the user.
import { useEffect, type ReactNode } from "react";
import type { Chat, ChatState } from "../chat/chat.ts";
import type { Exchange } from "../chat/exchanges.ts";
import { isLearning, learntFrom, recallOf, waitingFrom, type Given, type Learnt } from "../chat/turn-memory.ts";
import { useChatState } from "../chat/use-chats.ts";
import { Away } from "../components/page.tsx";
import type { User } from "../session.ts";
import { inbox, memories, readMemories, type Memory } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { attempt } from "../stores/toasts.ts";
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
  const state = useChatState(chat);
  const exchange = state.exchanges.find((one) => one.key === turnKey) ?? state.exchanges.at(-1);
  if (exchange === undefined || state.failure !== null) return <PanelFrame><p className="quiet">{texts.panelEmpty}</p></PanelFrame>;
  return (
    <PanelFrame>
      <p className="panel-turn">{exchange.question}</p>
      {state.recordsFailure === null || exchange.seen ? null : <Away what={texts.panel} onRetry={() => chat.reloadRecords()} />}
      <TurnParts key={exchange.key} exchange={exchange} state={state} user={user} />
    </PanelFrame>
  );
}

function TurnParts({ exchange, state, user }: { exchange: Exchange; state: ChatState; user: User }) {
  const record = state.records.get(exchange.messageId ?? "");
  const waiting = useStore(inbox) ?? [];
  const canChange = user.scopes.has("memory:write");
  const learnt = learntFrom(exchange, record);
  const proposals = waitingFrom(exchange, waiting);
  return (
    <>
      <Section title={texts.usedForAnswer}>
        <Used exchange={exchange} state={state} canChange={canChange} />
      </Section>
      <Section title={texts.learntFromTurn}>
        {learnt.length > 0 ? (
          <LearntList learnt={learnt} canChange={canChange} />
        ) : (
          <p className="quiet">{isLearning(exchange, record) ? texts.learning : texts.nothingLearnt}</p>
        )}
      </Section>
      {proposals.length === 0 ? null : (
        <Section title={texts.waitsForYou}>
          <ul>
            {proposals.map((one) => (
              <ProposalCard
                key={one.proposal_id}
                proposal={one}
                question={one.sources.at(-1)?.message_id === exchange.messageId ? exchange.question : null}
                canDecide={user.scopes.has("memory:review")}
              />
            ))}
          </ul>
        </Section>
      )}
    </>
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

function Used({ exchange, state, canChange }: { exchange: Exchange; state: ChatState; canChange: boolean }) {
  const recall = recallOf(exchange, state.records.get(exchange.messageId ?? ""));
  if (recall === null) return <p className="quiet">{exchange.seen ? texts.nothingUsed : texts.usedUnknown}</p>;
  const { memories: used, leftOut } = recall;
  return (
    <>
      {used.length > 0 ? (
        <GivenList given={used} question={exchange.question} canChange={canChange} />
      ) : (
        <p className="quiet">{recall.away ? texts.memoryAway : texts.nothingUsed}</p>
      )}
      {leftOut.length === 0 ? null : (
        <details className="left-out">
          <summary>{texts.leftOut(leftOut.length)}</summary>
          <p className="quiet">{texts.leftOutHint}</p>
          <GivenList given={leftOut} question={exchange.question} canChange={canChange} />
        </details>
      )}
    </>
  );
}

/** Memories that were found for a question, as they are now; a record has their ids only. */
function GivenList({ given, question, canChange }: { given: readonly Given[]; question: string; canChange: boolean }) {
  const known = useStore(memories);
  const ids = given.map((one) => one.memoryId).join(" ");
  useEffect(() => void attempt(() => readMemories(ids.split(" "))), [ids]);
  return (
    <ul>
      {given.map((one) => {
        const memory = known.get(one.memoryId);
        if (one.told === null && memory === undefined) return <li key={one.memoryId} className="memory quiet">{texts.loading}</li>;
        const text = one.told?.text ?? memory?.text ?? "";
        const source = one.told === null ? sourceOf(memory ?? undefined) : toldSource(one.told);
        return (
          <MemoryCard key={one.memoryId} memoryId={one.memoryId} text={text} kind={one.told?.kind ?? memory?.kind ?? "semantic"} source={source} canChange={canChange} links>
            <p className="why">
              <span className="closeness" title={texts.score(one.score)}>
                {closeness(one.score)}
              </span>
              {[...reasons(question, text, source?.at ?? null), ...(one.earlier ? [one.mayHold ? texts.mayHold : texts.earlier] : [])].join(" · ")}
            </p>
          </MemoryCard>
        );
      })}
    </ul>
  );
}

function LearntList({ learnt, canChange }: { learnt: readonly Learnt[]; canChange: boolean }) {
  const known = useStore(memories);
  const ids = learnt.map((one) => one.memoryId).join(" ");
  useEffect(() => void attempt(() => readMemories(ids.split(" "), true)), [ids]);
  return (
    <ul>
      {learnt.map((one) => (
        <MemoryCard
          key={one.memoryId}
          memoryId={one.memoryId}
          text={one.text}
          kind={one.kind}
          before={one.before}
          source={sourceOf(known.get(one.memoryId) ?? undefined)}
          canChange={canChange}
          links
        >
          <p className="why">
            <span className={`badge ${one.change}`}>{texts.changes[one.change]}</span>
          </p>
        </MemoryCard>
      ))}
    </ul>
  );
}

function toldSource(told: NonNullable<Given["told"]>): ShownSource {
  return { speaker: told.why.said_by ?? "user", at: told.said_at, threadId: told.thread_id, messageId: told.message_id };
}

export function sourceOf(memory: Memory | undefined): ShownSource | null {
  const source = memory?.sources.at(-1);
  if (source === undefined) return null;
  return { speaker: source.speaker, at: source.at, threadId: source.thread_id, messageId: source.message_id };
}
