// Everything that is remembered: search, filters, a list or a timeline, and one memory in full.
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { VList, type VListHandle } from "virtua";
import { call, send, type Schemas } from "../api/client.ts";
import { Confirm, IconButton, Menu, TextDialog } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { Away, Empty, Page } from "../components/page.tsx";
import { useFocusedRow } from "../components/use-focused-row.ts";
import { useLoaded } from "../components/use-loaded.ts";
import { closeness } from "../panel/match.ts";
import { MemoryCard } from "../panel/memory-card.tsx";
import { sourceOf } from "../panel/memory-panel.tsx";
import type { User } from "../session.ts";
import type { Memory } from "../stores/memories.ts";
import { useStore } from "../stores/store.ts";
import { threads } from "../stores/threads.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { dayOf, texts } from "../texts.ts";
import { foldMessages, groupEpisodes, type Grouped, type Row, type Shown } from "./episodes.ts";
import { MemoryDetail } from "./memory-detail.tsx";
import { Tombstones } from "./tombstones.tsx";

type Kind = Schemas["MemoryBody"]["kind"];
type Trust = "user" | "import" | "assistant" | "agent" | "document" | "tool";
interface Filters {
  kind?: Kind;
  trust?: Trust;
  pinned?: boolean;
  days?: number;
  thread?: string;
}

const pageSize = 100;
const threadsOffered = 100;
const nearEnd = 800;
const importBytes = 1_000_000;
const dayMilliseconds = 24 * 60 * 60 * 1000;

interface MemoryViewProps {
  user: User;
  memoryId: string | null;
  /** Only memories that were said in this conversation. */
  threadId: string | null;
}

export default function MemoryView({ user, memoryId, threadId }: MemoryViewProps) {
  if (memoryId !== null) return <MemoryDetail key={memoryId} memoryId={memoryId} user={user} />;
  return <MemoryList key={threadId} user={user} threadId={threadId} />;
}

function MemoryList({ user, threadId }: { user: User; threadId: string | null }) {
  const [query, setQuery] = useState("");
  const [filters, setFilters] = useState<Filters>(threadId === null ? {} : { thread: threadId });
  const [byDay, setByDay] = useState(false);
  const [tombstones, setTombstones] = useState(false);
  const sought = useDeferredValue(query.trim());
  const list = useMemories(sought, filters);
  const kinds = useKindNames();
  const canChange = user.scopes.has("memory:write");
  const set = (name: keyof Filters, value: string | number | boolean | undefined) =>
    setFilters(Object.fromEntries([...Object.entries(filters).filter(([one]) => one !== name), ...(value === undefined ? [] : [[name, value]])]));
  return (
    <Page title={texts.memory} actions={<Actions canChange={canChange} onChange={list.reload} onTombstones={() => setTombstones(true)} />}>
      {list.nothing ? null : (
        <div className="filters" role="search">
          <label className="search">
            <Icon name="search" />
            <input type="search" aria-label={texts.searchMemories} placeholder={texts.searchMemories} value={query} onChange={(event) => setQuery(event.target.value)} />
          </label>
          <div className="chips">
            <FilterSelect label={texts.filterKind} any={texts.anyKind} options={kinds} value={filters.kind} onChange={(kind) => set("kind", kind)} />
            <FilterSelect label={texts.filterSource} any={texts.anySource} options={texts.speakers} value={filters.trust} onChange={(trust) => set("trust", trust)} />
            <FilterSelect
              label={texts.filterTime}
              any={texts.anyTime}
              options={{ 1: texts.lastDay, 7: texts.lastWeek, 30: texts.lastMonth }}
              value={filters.days?.toString()}
              onChange={(days) => set("days", days === undefined ? undefined : Number(days))}
            />
            <ThreadFilter value={filters.thread} onChange={(thread) => set("thread", thread)} />
            <button type="button" aria-pressed={filters.pinned ?? false} onClick={() => set("pinned", filters.pinned ? undefined : true)}>
              {texts.onlyPinned}
            </button>
            <button type="button" aria-pressed={byDay} disabled={sought !== ""} onClick={() => setByDay(!byDay)}>
              {texts.timeline}
            </button>
          </div>
        </div>
      )}
      {list.error === null ? null : <Away what={texts.memory} onRetry={list.reload} />}
      {list.shown?.length === 0 ? (
        list.nothing ? (
          <Empty icon="memory" title={texts.noMemories} hint={texts.noMemoriesHint} />
        ) : (
          <Empty icon="search" title={texts.noMemoriesFound} hint={texts.noMemoriesFoundHint} />
        )
      ) : null}
      <Rows shown={list.shown ?? []} folds={sought === "" && filters.kind === undefined} byDay={byDay && sought === ""} canChange={canChange} onEnd={list.more} />
      {tombstones ? <Tombstones canLift={user.scopes.has("memory:review")} onClose={() => setTombstones(false)} /> : null}
    </Page>
  );
}

interface FilterSelectProps {
  label: string;
  any: string;
  options: Record<string, string>;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

function FilterSelect({ label, any, options, value, onChange }: FilterSelectProps) {
  return (
    <select aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}>
      <option value="">{any}</option>
      {Object.entries(options).map(([one, text]) => (
        <option key={one} value={one}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** The newest conversations, and the one that is chosen, however old it is. */
function ThreadFilter({ value, onChange }: { value: string | undefined; onChange: (value: string | undefined) => void }) {
  const list = useStore(threads) ?? [];
  const offered = list.filter((one, place) => place < threadsOffered || one.thread_id === value);
  const options = Object.fromEntries(offered.map((one) => [one.thread_id, one.title || texts.untitled]));
  if (value !== undefined) options[value] ??= texts.untitled;
  return <FilterSelect label={texts.filterThread} any={texts.anyThread} options={options} value={value} onChange={onChange} />;
}

/** The names of the kinds that the service knows, the application's own as they are. */
function useKindNames(): Record<string, string> {
  const known = useLoaded(useCallback(() => call("get", "/api/memories/kinds"), []));
  if (known.value === null) return texts.kindNames;
  return Object.fromEntries(known.value.kinds.map((kind) => [kind.name, texts.kindNames[kind.name] ?? kind.name]));
}

interface FirstPage {
  shown: readonly Shown[];
  /** Whether neither a search nor a filter leaves anything out. */
  all: boolean;
}

function useMemories(sought: string, filters: Filters) {
  const { kind, trust, pinned, days, thread } = filters;
  const [further, setFurther] = useState<readonly Shown[]>([]);
  const cursor = useRef<string | null>(null);
  const reading = useRef(false);

  const wanted = useMemo(
    () => ({
      limit: pageSize,
      ...(kind === undefined ? {} : { kind }),
      ...(trust === undefined ? {} : { trust }),
      ...(pinned === undefined ? {} : { pinned }),
      ...(thread === undefined ? {} : { thread_id: thread }),
      ...(days === undefined ? {} : { since: new Date(midnight() - (days - 1) * dayMilliseconds).toISOString() }),
    }),
    [kind, trust, pinned, days, thread],
  );
  const first = useLoaded(
    useCallback(async (): Promise<FirstPage> => {
      if (sought !== "") {
        const { found } = await call("get", "/api/memories/search", { query: { q: sought, ...wanted } });
        return { shown: found.map((one) => ({ memory: one.memory, score: one.score })), all: false };
      }
      const page = await call("get", "/api/memories", { query: wanted });
      cursor.current = page.cursor;
      return { shown: page.memories.map((memory) => ({ memory, score: null })), all: Object.keys(wanted).length === 1 }; // the limit
    }, [sought, wanted]),
  );
  useEffect(() => {
    setFurther([]);
    if (sought !== "") cursor.current = null;
  }, [first.value, sought]);

  async function more() {
    if (cursor.current === null || reading.current) return;
    reading.current = true;
    await attempt(async () => {
      const page = await call("get", "/api/memories", { query: { ...wanted, cursor: cursor.current ?? "" } });
      cursor.current = page.cursor;
      setFurther((before) => [...before, ...page.memories.map((memory) => ({ memory, score: null }))]);
    });
    reading.current = false;
  }
  const shown = useMemo(() => (first.value === null ? null : [...first.value.shown, ...further]), [first.value, further]);
  const nothing = first.value?.all === true && shown?.length === 0;
  return { shown, nothing, error: first.error, reload: first.reload, more: () => void more() };
}

const midnight = (): number => new Date().setHours(0, 0, 0, 0);

interface RowsProps {
  shown: readonly Shown[];
  /** Whether messages without a memory are folded. */
  folds: boolean;
  byDay: boolean;
  canChange: boolean;
  onEnd: () => void;
}

function Rows({ shown, folds, byDay, canChange, onEnd }: RowsProps) {
  const rows = useMemo(() => {
    const all = withDays(groupEpisodes(shown), byDay);
    return folds ? foldMessages(all) : all;
  }, [shown, folds, byDay]);
  const [kept, keepFocused] = useFocusedRow();
  const list = useRef<VListHandle>(null);
  const end = useRef(onEnd);
  end.current = onEnd;
  const toEnd = useCallback(() => {
    const box = list.current;
    if (box !== null && box.scrollSize - box.scrollOffset - box.viewportSize < nearEnd) end.current();
  }, []);
  useEffect(toEnd, [rows, toEnd]); // grouping may leave fewer rows than the window has room for
  return (
    <VList ref={list} className="memory-rows" role="list" aria-label={texts.memory} tabIndex={0} data={rows} keepMounted={kept} onFocus={keepFocused} onScroll={toEnd}>
      {({ memory, score, episodes, day }, index) => (
        <div key={memory?.memory_id ?? `said-${episodes[0]?.memory_id}`} role="none" className="memory-row" data-index={index}>
          {day === null ? null : <h2>{day}</h2>}
          {memory === null ? (
            <div role="listitem" className="said-alone">
              <Episodes title={texts.saidAlone(episodes.length)} episodes={episodes} canChange={canChange} />
            </div>
          ) : (
            <MemoryCard memoryId={memory.memory_id} text={memory.text} kind={memory.kind} label={labelOf(memory)} source={sourceOf(memory)} canChange={canChange} links>
              {score === null ? null : (
                <p className="why">
                  <span className="closeness" title={texts.score(score)}>
                    {closeness(score)}
                  </span>
                </p>
              )}
              {episodes.length === 0 ? null : <Episodes title={texts.episodesOf(episodes.length)} episodes={episodes} canChange={canChange} />}
            </MemoryCard>
          )}
        </div>
      )}
    </VList>
  );
}

function labelOf(memory: Memory): string {
  const kind = texts.kindNames[memory.kind] ?? memory.kind;
  return memory.status === "active" ? kind : `${kind} · ${texts.states[memory.status] ?? memory.status}`;
}

/** Put the day of the last change above the first memory of it: the order of the list. */
function withDays(groups: readonly Grouped[], byDay: boolean): Row[] {
  let last: string | null = null;
  return groups.map((group) => {
    const day = byDay ? dayOf(group.memory.updated_at) : null;
    const shown = day === last ? null : day;
    last = day;
    return { ...group, day: shown };
  });
}

/** The words that a fact was learnt from: they are memories of their own, and say the same. */
function Episodes({ title, episodes, canChange }: { title: string; episodes: readonly Memory[]; canChange: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="episodes" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      <ul hidden={!open}>
        {(open ? episodes : []).map((one) => (
          <MemoryCard key={one.memory_id} memoryId={one.memory_id} text={one.text} kind={one.kind} source={sourceOf(one)} canChange={canChange} links />
        ))}
      </ul>
    </details>
  );
}

function Actions({ canChange, onChange, onTombstones }: { canChange: boolean; onChange: () => void; onTombstones: () => void }) {
  const [adds, setAdds] = useState(false);
  const [undoes, setUndoes] = useState(false);
  const picker = useRef<HTMLInputElement>(null);

  async function add(text: string) {
    await attempt(async () => {
      const kept = await call("post", "/api/memories", { body: { text, kind: "semantic", pinned: false, approved: false, tags: [], metadata: {} } });
      showToast(texts.added[kept.status] ?? kept.status);
      onChange();
    });
  }

  async function importFile(file: File) {
    if (file.size > importBytes) return showToast(texts.importTooLarge(file.name));
    await attempt(async () => {
      const answer = await send("post", "/api/memories/import", { body: await file.text(), headers: { "Content-Type": "application/x-ndjson" } });
      const done = (await answer.json()) as Schemas["ImportedBody"];
      showToast(texts.imported(done.accepted.length, done.duplicates.length, done.proposed.length, done.rejected.length + done.invalid.length));
      onChange();
    });
  }

  async function undo() {
    await attempt(async () => {
      const undone = await call("post", "/api/memories/undo", { body: { last: 1 } });
      showToast(texts.undoneCount(undone.memory_ids.length + undone.removed.length));
      onChange();
    });
  }

  return (
    <>
      {canChange ? <IconButton icon="plus" label={texts.addMemory} onClick={() => setAdds(true)} /> : null}
      <Menu
        label={texts.memory}
        items={[
          ...(canChange
            ? [
                { label: texts.importMemories, icon: "file" as const, onSelect: () => picker.current?.click() },
                { label: texts.undoLast, icon: "undo" as const, onSelect: () => setUndoes(true) },
              ]
            : []),
          { label: texts.exportMemories, icon: "down", onSelect: () => location.assign("/api/memories/export") },
          { label: texts.tombstones, icon: "never", onSelect: onTombstones },
        ]}
      />
      <input
        ref={picker}
        type="file"
        hidden
        accept=".jsonl,.ndjson,.json"
        aria-label={texts.importMemories}
        onChange={(event) => {
          const file = event.target.files?.[0];
          if (file !== undefined) void importFile(file);
          event.target.value = "";
        }}
      />
      {adds ? <TextDialog title={texts.addMemory} label={texts.addMemoryLabel} text="" action={texts.add} rows={3} onSubmit={(text) => void add(text)} onClose={() => setAdds(false)} /> : null}
      {undoes ? <Confirm title={texts.undoLast} text={texts.undoLast} action={texts.undo} onConfirm={() => void undo()} onClose={() => setUndoes(false)} /> : null}
    </>
  );
}
