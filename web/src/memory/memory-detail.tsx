// One memory: since when it is true and known, where it was said, its history, its uses, and what it comes from.
import { useCallback, useState } from "react";
import { call } from "../api/client.ts";
import { Confirm } from "../components/controls.tsx";
import { Away, Page, Part } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { MemoryCard } from "../panel/memory-card.tsx";
import { sourceOf } from "../panel/memory-panel.tsx";
import { chatAddress, go, memoryAddress } from "../route.ts";
import type { User } from "../session.ts";
import { readMemory, type Memory } from "../stores/memories.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { exactTime, texts } from "../texts.ts";
import { diffWords } from "./diff.ts";

export function MemoryDetail({ memoryId, user }: { memoryId: string; user: User }) {
  const path = { memory_id: memoryId };
  const why = useLoaded(useCallback(() => call("get", "/api/memories/{memory_id}/why", { path }), [memoryId]));
  const history = useLoaded(useCallback(() => call("get", "/api/memories/{memory_id}/history", { path }), [memoryId]));
  const canChange = user.scopes.has("memory:write");
  const memory = why.value?.memory;
  return (
    <Page title={texts.memory} actions={<a href={memoryAddress()}>{texts.backToList}</a>}>
      {why.error === null ? null : why.error.status === 404 ? <p>{texts.memoryGone}</p> : <Away what={texts.details} onRetry={why.reload} />}
      {memory === undefined || why.value === null ? null : (
        <div className="detail">
          <ul>
            <MemoryCard memoryId={memoryId} text={memory.text} kind={memory.kind} source={sourceOf(memory)} canChange={canChange} />
          </ul>
          <Facts memory={memory} usedAt={why.value.used_at} />
          <Part title={texts.sources}>
            <Sources memory={memory} canChange={canChange} />
          </Part>
          <Part title={texts.history}>
            {history.error === null ? null : <Away what={texts.history} onRetry={history.reload} />}
            {history.value?.versions.length === 0 ? <p className="quiet">{texts.noHistory}</p> : null}
            <ol className="versions">
              {history.value?.versions.map((version, index, versions) => (
                <li key={version.replaced_at}>
                  <Change before={version.text} after={versions[index + 1]?.text ?? memory.text} />
                  <span className="quiet"> {texts.replacedAt(exactTime(version.replaced_at))}</span>
                </li>
              ))}
            </ol>
          </Part>
          <Related title={texts.derivedFrom} memories={why.value.derived_from} />
          <Related title={texts.mergedFrom} memories={why.value.merged} />
        </div>
      )}
    </Page>
  );
}

function Facts({ memory, usedAt }: { memory: Memory; usedAt: string | null }) {
  const rows: [string, string | null][] = [
    [texts.kindLabel, texts.kindNames[memory.kind] ?? memory.kind],
    [texts.trustLabel, texts.speakers[memory.trust] ?? memory.trust],
    [texts.stateLabel, texts.states[memory.status] ?? memory.status],
    [texts.validSince, memory.valid_from && exactTime(memory.valid_from)],
    [texts.validUntil, memory.valid_to && exactTime(memory.valid_to)],
    [texts.knownSince, exactTime(memory.created_at)],
    [texts.changedAt, exactTime(memory.updated_at)],
    [texts.approvedBy, memory.approved_by],
    [texts.lastUsed, usedAt === null ? texts.neverUsed : exactTime(usedAt)],
  ];
  return (
    <dl className="facts">
      {rows.map(([name, value]) =>
        value === null ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

function Sources({ memory, canChange }: { memory: Memory; canChange: boolean }) {
  return (
    <ul className="rows">
      {memory.sources.map((source, index) => (
        <li key={index}>
          <span className="grow">
            {source.at === null ? texts.speakers[source.speaker] : texts.said(texts.speakers[source.speaker] ?? source.speaker, exactTime(source.at))}
          </span>
          {source.thread_id === null ? null : (
            <>
              <a href={chatAddress(source.thread_id, source.message_id)}>{texts.source}</a>
              {canChange ? <ForgetThread threadId={source.thread_id} /> : null}
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Forget every memory that was said in a thread, after the number of them was shown. */
function ForgetThread({ threadId }: { threadId: string }) {
  const [found, setFound] = useState<readonly Memory[] | null>(null);
  async function look() {
    await attempt(async () => setFound(await memoriesOf(threadId)));
  }
  async function forget(list: readonly Memory[]) {
    const gone = new Set<string>();
    for (const one of list) {
      if (gone.has(one.memory_id)) continue;
      const done = await attempt(async () => {
        const now = await readMemory(one.memory_id);
        if (now === null) return;
        const answer = await call("delete", "/api/memories/{memory_id}", { path: { memory_id: one.memory_id }, ifMatch: now.revision });
        for (const id of answer.memory_ids) gone.add(id);
      });
      if (!done) break;
    }
    showToast(texts.forgotThread(gone.size));
    go(memoryAddress());
  }
  return (
    <>
      <button type="button" className="danger" onClick={() => void look()}>
        {texts.forgetThread}
      </button>
      {found === null ? null : (
        <Confirm title={texts.forgetThread} text={texts.forgetThreadText(found.length)} action={texts.forget} onConfirm={() => void forget(found)} onClose={() => setFound(null)} />
      )}
    </>
  );
}

async function memoriesOf(threadId: string): Promise<Memory[]> {
  const all: Memory[] = [];
  for (let cursor: string | null = null; ; ) {
    const query: { thread_id: string; limit: number; cursor?: string } = { thread_id: threadId, limit: 100, ...(cursor === null ? {} : { cursor }) };
    const page: { memories: Memory[]; cursor: string | null } = await call("get", "/api/memories", { query });
    all.push(...page.memories);
    if (page.cursor === null) return all;
    cursor = page.cursor;
  }
}

function Change({ before, after }: { before: string; after: string }) {
  return (
    <span>
      {diffWords(before, after).map((piece, index) =>
        piece.kind === "added" ? <ins key={index}>{piece.text}</ins> : piece.kind === "removed" ? <del key={index}>{piece.text}</del> : <span key={index}>{piece.text}</span>,
      )}
    </span>
  );
}

function Related({ title, memories }: { title: string; memories: readonly Memory[] }) {
  if (memories.length === 0) return null;
  return (
    <Part title={title}>
      <ul className="rows">
        {memories.map((one) => (
          <li key={one.memory_id}>
            <a href={memoryAddress(one.memory_id)}>{one.text}</a>
          </li>
        ))}
      </ul>
    </Part>
  );
}
