// Everything that is remembered: search, filters, a list or a timeline, and one memory in full.
import { useCallback, useDeferredValue, useEffect, useRef, useState } from "react";
import { VList, type VListHandle } from "virtua";
import { call, send, type Schemas } from "../api/client.ts";
import { Confirm, IconButton, Menu, TextDialog } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { Away, Page } from "../components/page.tsx";
import { useLoaded } from "../components/use-loaded.ts";
import { closeness } from "../panel/match.ts";
import { MemoryCard } from "../panel/memory-card.tsx";
import { sourceOf } from "../panel/memory-panel.tsx";
import type { User } from "../session.ts";
import type { Memory } from "../stores/memories.ts";
import { attempt, showToast } from "../stores/toasts.ts";
import { dayOf, texts } from "../texts.ts";
import { MemoryDetail } from "./memory-detail.tsx";
import { Tombstones } from "./tombstones.tsx";

type Kind = Schemas["MemoryBody"]["kind"];
type Filters = { kind?: Kind; trust?: "user" | "import" | "assistant" | "agent" | "document" | "tool"; pinned?: boolean; days?: number };

const pageSize = 100;
const searchLimit = 50;
const nearEnd = 800;
const importBytes = 1_000_000;
const dayMilliseconds = 24 * 60 * 60 * 1000;

interface Shown {
  memory: Memory;
  score: number | null;
}

export default function MemoryView({ user, memoryId }: { user: User; memoryId: string | null }) {
  return memoryId === null ? <MemoryList user={user} /> : <MemoryDetail key={memoryId} memoryId={memoryId} user={user} />;
}

function MemoryList({ user }: { user: User }) {
  const [query, setQuery] = useState("");
  const [filters, setFilters] = useState<Filters>({});
  const [timeline, setTimeline] = useState(false);
  const [tombstones, setTombstones] = useState(false);
  const sought = useDeferredValue(query.trim());
  const list = useMemories(sought, filters);
  const canChange = user.scopes.has("memory:write");
  return (
    <Page title={texts.memory} actions={<Actions canChange={canChange} onChange={list.reload} onTombstones={() => setTombstones(true)} />}>
      <div className="filters" role="search">
        <label className="search">
          <Icon name="search" />
          <input type="search" aria-label={texts.searchMemories} placeholder={texts.searchMemories} value={query} onChange={(event) => setQuery(event.target.value)} />
        </label>
        <FilterSelect label={texts.filterKind} any={texts.anyKind} options={texts.kindNames} onChange={(kind) => setFilters({ ...without(filters, "kind"), ...(kind ? { kind: kind as Kind } : {}) })} />
        <FilterSelect label={texts.filterSource} any={texts.anySource} options={texts.speakers} onChange={(trust) => setFilters({ ...without(filters, "trust"), ...(trust ? { trust: trust as NonNullable<Filters["trust"]> } : {}) })} />
        <FilterSelect
          label={texts.filterTime}
          any={texts.anyTime}
          options={{ 1: texts.lastDay, 7: texts.lastWeek, 30: texts.lastMonth }}
          onChange={(days) => setFilters({ ...without(filters, "days"), ...(days ? { days: Number(days) } : {}) })}
        />
        <button type="button" aria-pressed={filters.pinned ?? false} onClick={() => setFilters({ ...without(filters, "pinned"), ...(filters.pinned ? {} : { pinned: true }) })}>
          {texts.onlyPinned}
        </button>
        <button type="button" aria-pressed={timeline} onClick={() => setTimeline(!timeline)}>
          {texts.timeline}
        </button>
      </div>
      {list.error === null ? null : <Away onRetry={list.reload} />}
      {list.shown !== null && list.shown.length === 0 ? <p className="quiet">{sought === "" && Object.keys(filters).length === 0 ? texts.noMemories : texts.noMemoriesFound}</p> : null}
      <Rows shown={list.shown ?? []} timeline={timeline} canChange={canChange} onEnd={list.more} />
      {tombstones ? <Tombstones canLift={user.scopes.has("memory:review")} onClose={() => setTombstones(false)} /> : null}
    </Page>
  );
}

function without(filters: Filters, name: keyof Filters): Filters {
  return Object.fromEntries(Object.entries(filters).filter(([one]) => one !== name));
}

function FilterSelect({ label, any, options, onChange }: { label: string; any: string; options: Record<string, string>; onChange: (value: string) => void }) {
  return (
    <select aria-label={label} onChange={(event) => onChange(event.target.value)}>
      <option value="">{any}</option>
      {Object.entries(options).map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

function useMemories(sought: string, filters: Filters) {
  const { kind, trust, pinned, days } = filters;
  const [further, setFurther] = useState<readonly Shown[]>([]);
  const cursor = useRef<string | null>(null);
  const reading = useRef(false);

  const query = useCallback(
    (after: string | null) => ({
      limit: pageSize,
      ...(kind === undefined ? {} : { kind }),
      ...(trust === undefined ? {} : { trust }),
      ...(pinned === undefined ? {} : { pinned }),
      ...(days === undefined ? {} : { since: new Date(midnight() - (days - 1) * dayMilliseconds).toISOString() }),
      ...(after === null ? {} : { cursor: after }),
    }),
    [kind, trust, pinned, days],
  );
  const first = useLoaded(
    useCallback(async (): Promise<Shown[]> => {
      if (sought !== "") {
        const { found } = await call("get", "/api/memories/search", { query: { q: sought, limit: searchLimit, ...(kind === undefined ? {} : { kind }) } });
        return found.filter((one) => fits(one.memory, { trust, pinned, days })).map((one) => ({ memory: one.memory, score: one.score }));
      }
      const page = await call("get", "/api/memories", { query: query(null) });
      cursor.current = page.cursor;
      return page.memories.map((memory) => ({ memory, score: null }));
    }, [sought, kind, trust, pinned, days, query]),
  );
  useEffect(() => {
    setFurther([]);
    if (sought !== "") cursor.current = null;
  }, [first.value, sought]);

  async function more() {
    if (cursor.current === null || reading.current) return;
    reading.current = true;
    await attempt(async () => {
      const page = await call("get", "/api/memories", { query: query(cursor.current) });
      cursor.current = page.cursor;
      setFurther((before) => [...before, ...page.memories.map((memory) => ({ memory, score: null }))]);
    });
    reading.current = false;
  }
  return { shown: first.value === null ? null : [...first.value, ...further], error: first.error, reload: first.reload, more: () => void more() };
}

const midnight = (): number => new Date().setHours(0, 0, 0, 0);

/** Search has recall's ranking and knows the kind only; the other filters hold for what it found. */
function fits(memory: Memory, filters: { trust: string | undefined; pinned: boolean | undefined; days: number | undefined }): boolean {
  if (filters.trust !== undefined && memory.trust !== filters.trust) return false;
  if (filters.pinned !== undefined && memory.pinned !== filters.pinned) return false;
  return filters.days === undefined || Date.parse(memory.updated_at) >= midnight() - (filters.days - 1) * dayMilliseconds;
}

function Rows({ shown, timeline, canChange, onEnd }: { shown: readonly Shown[]; timeline: boolean; canChange: boolean; onEnd: () => void }) {
  const rows = timeline ? [...shown].sort((one, other) => timeOf(other.memory).localeCompare(timeOf(one.memory))) : shown;
  const list = useRef<VListHandle>(null);
  function onScroll(offset: number) {
    const box = list.current;
    if (box !== null && box.scrollSize - offset - box.viewportSize < nearEnd) onEnd();
  }
  return (
    <VList ref={list} className="memory-rows" role="list" aria-label={texts.memory} tabIndex={0} onScroll={onScroll}>
      {rows.map((one, index) => {
        const day = dayOf(timeOf(one.memory));
        const before = rows[index - 1];
        return (
          <div key={one.memory.memory_id} role="none" className="memory-row">
            {timeline && (before === undefined || dayOf(timeOf(before.memory)) !== day) ? <h2>{day}</h2> : null}
            <MemoryCard memoryId={one.memory.memory_id} text={one.memory.text} kind={one.memory.kind} source={sourceOf(one.memory)} canChange={canChange} links>
              <p className="why">
                {one.score === null ? null : (
                  <span className="closeness" title={texts.score(one.score)}>
                    {closeness(one.score)}
                  </span>
                )}
                {texts.kindNames[one.memory.kind]}
                {one.memory.status === "active" ? null : ` · ${one.memory.status}`}
              </p>
            </MemoryCard>
          </div>
        );
      })}
    </VList>
  );
}

const timeOf = (memory: Memory): string => memory.valid_from ?? memory.sources.at(-1)?.at ?? memory.created_at;

function Actions({ canChange, onChange, onTombstones }: { canChange: boolean; onChange: () => void; onTombstones: () => void }) {
  const [adds, setAdds] = useState(false);
  const [undoes, setUndoes] = useState(false);
  const picker = useRef<HTMLInputElement>(null);

  async function add(text: string) {
    await attempt(async () => {
      const kept = await call("post", "/api/memories", { body: { text, kind: "semantic", pinned: false, approved: false } });
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
