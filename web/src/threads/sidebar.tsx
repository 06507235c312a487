// The list of conversations by day, with search and what can be done with each. Only what is visible is in the document.
import { useCallback, useDeferredValue, useMemo, useRef, useState } from "react";
import { VList, type VListHandle } from "virtua";
import { Confirm, Menu, TextDialog } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { Away } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { forgetChat } from "../chat/use-chats.ts";
import { chatAddress, go, memoriesOfThread } from "../route.ts";
import { useStore } from "../stores/store.ts";
import { changeThread, deleteThread, forkThread, loadMoreThreads, loadThreads, searchThreads, threads, threadsAway, type FoundThreads, type Mention, type Thread } from "../stores/threads.ts";
import { texts } from "../texts.ts";
import { groupByDay } from "./days.ts";

type Row = { kind: "heading"; label: string } | { kind: "thread"; thread: Thread } | { kind: "mention"; mention: Mention };

const nearEnd = 600;

export function Sidebar({ current }: { current: string | null }) {
  const list = useStore(threads);
  const away = useStore(threadsAway);
  const [query, setQuery] = useState("");
  const sought = useDeferredValue(query.trim());
  const search = useLoaded(useCallback(() => (sought === "" ? Promise.resolve(null) : searchThreads(sought)), [sought]));
  const rows = useMemo(() => (sought === "" ? rowsByDay(list ?? []) : rowsFound(search.value)), [sought, list, search.value]);
  const empty = sought === "" ? (list?.length === 0 ? texts.noThreads : null) : search.value !== null && rows.length === 0 ? texts.noThreadsFound : null;
  return (
    <nav className="threads-list" aria-label={texts.threads}>
      <a className="new-chat" href={chatAddress(null)}>
        <Icon name="plus" />
        {texts.newChat}
      </a>
      <label className="search">
        <Icon name="search" />
        <input
          type="search"
          placeholder={texts.searchThreads}
          aria-label={texts.searchThreads}
          value={query}
          onChange={(event) => setQuery(event.target.value)}
        />
      </label>
      {away ? <Away what={texts.threads} onRetry={() => void loadThreads()} /> : null}
      {empty === null ? null : <p className="quiet">{empty}</p>}
      {search.error === null || sought === "" ? null : <p className="failed">{texts.partAway(texts.searchThreads)}</p>}
      <Rows key={sought} rows={rows} current={current} />
    </nav>
  );
}

function rowsByDay(list: readonly Thread[]): Row[] {
  return groupByDay(list, Date.now()).flatMap((group): Row[] => [
    { kind: "heading", label: group.label },
    ...group.threads.map((thread): Row => ({ kind: "thread", thread })),
  ]);
}

function rowsFound(found: FoundThreads | null): Row[] {
  if (found === null) return [];
  return [
    ...(found.threads.length === 0 ? [] : [{ kind: "heading", label: texts.foundInTitles } as const]),
    ...found.threads.map((thread): Row => ({ kind: "thread", thread })),
    ...(found.mentions.length === 0 ? [] : [{ kind: "heading", label: texts.foundInSaid } as const]),
    ...found.mentions.map((mention): Row => ({ kind: "mention", mention })),
  ];
}

function Rows({ rows, current }: { rows: readonly Row[]; current: string | null }) {
  const list = useRef<VListHandle>(null);
  function onScroll(offset: number) {
    const box = list.current;
    if (box !== null && box.scrollSize - offset - box.viewportSize < nearEnd) void loadMoreThreads();
  }
  return (
    <VList ref={list} className="groups" role="list" data={rows} onScroll={onScroll}>
      {(row) =>
        row.kind === "heading" ? (
          <h2 key={`day-${row.label}`} role="presentation">
            {row.label}
          </h2>
        ) : row.kind === "thread" ? (
          <ThreadRow key={row.thread.thread_id} thread={row.thread} current={row.thread.thread_id === current} />
        ) : (
          <MentionRow key={`${row.mention.threadId} ${row.mention.messageId}`} mention={row.mention} />
        )
      }
    </VList>
  );
}

function MentionRow({ mention }: { mention: Mention }) {
  return (
    <div className="thread-row" role="listitem">
      <a href={chatAddress(mention.threadId, mention.messageId)} title={mention.text}>
        <span>{mention.text}</span>
      </a>
    </div>
  );
}

function ThreadRow({ thread, current }: { thread: Thread; current: boolean }) {
  const [asks, setAsks] = useState<"rename" | "delete" | null>(null);
  const title = thread.title || texts.untitled;

  async function remove() {
    if (!(await deleteThread(thread.thread_id))) return;
    forgetChat(thread.thread_id);
    if (current) go(chatAddress(null));
  }

  async function fork() {
    const forked = await forkThread(thread.thread_id);
    if (forked !== null) go(chatAddress(forked));
  }

  return (
    <div className={`thread-row ${current ? "current" : ""}`} role="listitem">
      <a href={chatAddress(thread.thread_id)} aria-current={current ? "page" : undefined} title={title}>
        <span>{title}</span>
        {thread.status === "running" ? <span className="badge">{texts.running}</span> : null}
      </a>
      <Menu
        label={texts.threadMenu(title)}
        items={[
          { label: texts.rename, icon: "edit", onSelect: () => setAsks("rename") },
          {
            label: thread.pinned ? texts.unpinThread : texts.pinThread,
            icon: "pin",
            onSelect: () => void changeThread(thread.thread_id, { pinned: !thread.pinned }),
          },
          { label: texts.threadMemories, icon: "memory", onSelect: () => go(memoriesOfThread(thread.thread_id)) },
          { label: texts.fork, icon: "fork", onSelect: () => void fork() },
          { label: texts.remove, icon: "trash", danger: true, onSelect: () => setAsks("delete") },
        ]}
      />
      {asks === "rename" ? (
        <TextDialog
          title={texts.renameTitle}
          label={texts.titleLabel}
          text={thread.title}
          action={texts.save}
          onSubmit={(text) => void changeThread(thread.thread_id, { title: text.slice(0, 200) })}
          onClose={() => setAsks(null)}
        />
      ) : null}
      {asks === "delete" ? (
        <Confirm
          title={texts.removeTitle}
          text={texts.removeText(title)}
          action={texts.remove}
          onConfirm={() => void remove()}
          onClose={() => setAsks(null)}
        />
      ) : null}
    </div>
  );
}
