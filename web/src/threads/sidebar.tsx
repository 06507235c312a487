// The list of conversations by day, with search and what can be done with each.
import { useState } from "react";
import { Confirm, Menu, TextDialog } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { forgetChat } from "../chat/use-chats.ts";
import { chatAddress, go } from "../route.ts";
import { useStore } from "../stores/store.ts";
import { changeThread, deleteThread, forkThread, threads, type Thread } from "../stores/threads.ts";
import { texts } from "../texts.ts";
import { groupByDay } from "./days.ts";

export function Sidebar({ current }: { current: string | null }) {
  const list = useStore(threads);
  const [query, setQuery] = useState("");
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = list?.filter((one) => words.every((word) => one.title.toLowerCase().includes(word))) ?? [];
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
      {list !== null && shown.length === 0 ? (
        <p className="quiet">{list.length === 0 ? texts.noThreads : texts.noThreadsFound}</p>
      ) : null}
      <div className="groups">
        {groupByDay(shown, Date.now()).map((group) => (
          <section key={group.label}>
            <h2>{group.label}</h2>
            <ul>
              {group.threads.map((thread) => (
                <ThreadRow key={thread.thread_id} thread={thread} current={thread.thread_id === current} />
              ))}
            </ul>
          </section>
        ))}
      </div>
    </nav>
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
    <li className={current ? "current" : ""}>
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
    </li>
  );
}
