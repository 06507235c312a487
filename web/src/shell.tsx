// The frame of the page: conversations on the left, the view in the middle, the memory panel on the right.
import { useEffect, useRef, useState, type ReactNode } from "react";
import { ChatView } from "./chat/chat-view.tsx";
import { loadTurnMemories } from "./chat/turn-memory.ts";
import { useChats } from "./chat/use-chats.ts";
import { setAnnouncer } from "./components/announce.ts";
import { IconButton, Menu } from "./components/controls.tsx";
import { Icon } from "./components/icon.tsx";
import { MemoryPanel } from "./panel/memory-panel.tsx";
import { parseRoute, useFragment } from "./route.ts";
import { loadSession, signIn, signOut, type User } from "./session.ts";
import { loadInbox } from "./stores/memories.ts";
import { useStore } from "./stores/store.ts";
import { loadThreads } from "./stores/threads.ts";
import { attempt, closeToast, sessionEnded, showToast, toasts } from "./stores/toasts.ts";
import { texts } from "./texts.ts";
import { Sidebar } from "./threads/sidebar.tsx";

type Drawer = "threads" | "panel" | null;

export function Shell({ user }: { user: User }) {
  const route = parseRoute(useFragment());
  const chat = useChats(route.threadId);
  const [drawer, setDrawer] = useState<Drawer>(null);
  const [panelOpen, setPanelOpen] = useState(true);
  const [turnKey, setTurnKey] = useState<string | null>(null);
  const fragment = useFragment();

  useEffect(() => {
    void loadThreads();
    void loadInbox();
    void loadTurnMemories();
  }, []);
  useEffect(() => setDrawer(null), [fragment]);
  useEffect(() => setTurnKey(null), [chat]);

  function showTurn(key: string) {
    setTurnKey(key);
    setPanelOpen(true);
    setDrawer("panel");
  }

  return (
    <div className={`frame ${panelOpen ? "" : "without-panel"}`}>
      <a className="skip" href="#message" onClick={focusMessage}>
        {texts.skip}
      </a>
      <Side name="threads" label={texts.threads} open={drawer === "threads"} onClose={() => setDrawer(null)}>
        <Sidebar current={route.threadId} />
      </Side>
      <div className="middle">
        <header className="top">
          <IconButton icon="menu" className="narrow-only" label={texts.showThreads} onClick={() => setDrawer("threads")} />
          <span className="brand">{texts.product}</span>
          <span className="grow" />
          <IconButton
            icon="panel"
            label={texts.showPanel}
            pressed={panelOpen}
            onClick={() => (isNarrow() ? setDrawer("panel") : setPanelOpen(!panelOpen))}
          />
          <Profile user={user} />
        </header>
        <SessionEnded user={user} />
        <ChatView key={chat.id} chat={chat.chat} messageId={route.messageId} shownTurn={turnKey} onShowTurn={showTurn} />
      </div>
      <Side name="panel" label={texts.panel} open={drawer === "panel"} onClose={() => setDrawer(null)}>
        <MemoryPanel chat={chat.chat} turnKey={turnKey} user={user} />
      </Side>
      <Toasts />
      <LiveRegion />
    </div>
  );
}

const isNarrow = () => window.matchMedia("(max-width: 899px)").matches;

function focusMessage(event: { preventDefault: () => void }) {
  event.preventDefault();
  document.getElementById("message")?.focus();
}

interface SideProps {
  name: string;
  label: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
}

/** A side of the frame; on a narrow screen, a drawer that Escape and a click beside it close. */
function Side({ name, label, open, onClose, children }: SideProps) {
  const side = useRef<HTMLElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    if (!open || !isNarrow()) return;
    const before = document.activeElement;
    const onKey = (event: KeyboardEvent) => (event.key === "Escape" ? close.current() : undefined);
    side.current?.querySelector<HTMLElement>("button, a, input")?.focus();
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("keydown", onKey);
      if (before instanceof HTMLElement) before.focus();
    };
  }, [open]);
  return (
    <>
      {open ? <div className="behind" onClick={onClose} /> : null}
      <aside ref={side} className={`side ${name} ${open ? "open" : ""}`} aria-label={label}>
        <IconButton icon="close" className="narrow-only close-side" label={texts.close} onClick={onClose} />
        {children}
      </aside>
    </>
  );
}

function Profile({ user }: { user: User }) {
  if (!user.hasSession) return <span className="user">{user.userId}</span>;
  const leave = () => void attempt(signOut);
  return (
    <Menu label={texts.profile(user.userId)} items={[{ label: texts.signOut, onSelect: leave }]}>
      <Icon name="user" />
      <span className="user">{user.userId}</span>
    </Menu>
  );
}

/** Keeps what was written when the session ends: the user signs in elsewhere, and goes on here. */
function SessionEnded({ user }: { user: User }) {
  const ended = useStore(sessionEnded);
  if (!ended) return null;
  async function goOn() {
    const session = await loadSession();
    if (session.status === "signed-in" && session.user.userId === user.userId) sessionEnded.set(false);
    else if (session.status === "signed-in") location.reload();
    else showToast(texts.sessionEnded);
  }
  return (
    <div className="banner" role="alert">
      <span>{texts.sessionEnded}</span>
      <button type="button" className="primary" onClick={() => signIn(true)}>
        {texts.signIn}
      </button>
      <button type="button" onClick={() => void goOn()}>
        {texts.continueHere}
      </button>
    </div>
  );
}

function Toasts() {
  const shown = useStore(toasts);
  return (
    <div className="toasts">
      {shown.map((toast) => (
        <div key={toast.id} className="toast">
          <span>{toast.text}</span>
          {toast.action === null ? null : (
            <button
              type="button"
              onClick={() => {
                closeToast(toast.id);
                toast.action?.run();
              }}
            >
              {toast.action.label}
            </button>
          )}
          <IconButton icon="close" label={texts.close} onClick={() => closeToast(toast.id)} />
        </div>
      ))}
    </div>
  );
}

function LiveRegion() {
  const [sentence, setSentence] = useState("");
  useEffect(() => setAnnouncer(setSentence), []);
  return (
    <div className="unseen" role="status" aria-live="polite">
      {sentence}
    </div>
  );
}
