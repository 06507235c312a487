// The frame of the page: conversations on the left, the view in the middle, the memory panel on the right.
import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { isOtherVersion } from "./api/version.ts";
import { ChatView } from "./chat/chat-view.tsx";
import { forgetChat, reloadPage, restoreDraft, useChats } from "./chat/use-chats.ts";
import { announce, setAnnouncer } from "./components/announce.ts";
import { Boundary } from "./components/boundary.tsx";
import { IconButton, Menu, type MenuItem } from "./components/controls.tsx";
import { Icon } from "./components/icon.tsx";
import { MemoryPanel } from "./panel/memory-panel.tsx";
import { chatAddress, go, inboxAddress, memoryAddress, operatorAddress, parseRoute, privacyAddress, useFragment, type Route } from "./route.ts";
import { endSession, leavePage, loadSession, signIn, type User } from "./session.ts";
import { inbox, loadInbox } from "./stores/memories.ts";
import { useStore } from "./stores/store.ts";
import { loadThreads, watchDeletions } from "./stores/threads.ts";
import { attempt, closeToast, sessionEnded, showToast, toasts } from "./stores/toasts.ts";
import { texts } from "./texts.ts";
import { Sidebar } from "./threads/sidebar.tsx";

const MemoryView = lazy(() => import("./memory/memory-view.tsx"));
const InboxView = lazy(() => import("./inbox/inbox-view.tsx"));
const PrivacyView = lazy(() => import("./privacy/privacy-view.tsx"));
const OperatorView = lazy(() => import("./operator/operator-view.tsx"));

type Drawer = "threads" | "panel" | null;

export function Shell({ user }: { user: User }) {
  const fragment = useFragment();
  const route = parseRoute(fragment);
  const threadId = route.view === "chat" ? route.threadId : null;
  useState(() => restoreDraft(user.userId));
  const chat = useChats(threadId);
  const waiting = useStore(inbox)?.length ?? 0;
  const [drawer, setDrawer] = useState<Drawer>(null);
  const [panelOpen, setPanelOpen] = useState(true);
  const [turnKey, setTurnKey] = useState<string | null>(null);

  useEffect(() => {
    void loadThreads();
    void loadInbox();
    return watchDeletions(forgetChat);
  }, []);
  useEffect(() => setDrawer(null), [fragment]);
  useEffect(() => setTurnKey(null), [chat]);
  useEffect(() => {
    document.title = waiting === 0 ? texts.product : `(${waiting}) ${texts.product}`;
  }, [waiting]);

  function showTurn(key: string) {
    setTurnKey(key);
    setPanelOpen(true);
    setDrawer("panel");
  }

  return (
    <div className={`frame ${panelOpen && route.view === "chat" ? "" : "without-panel"}`}>
      <a className="skip" href="#main" onClick={focusMain}>
        {texts.skip}
      </a>
      <Side name="threads" label={texts.threads} open={drawer === "threads"} onClose={() => setDrawer(null)}>
        <Views route={route} waiting={waiting} />
        <Sidebar current={threadId} />
      </Side>
      <div className="middle">
        <header className="top">
          <IconButton icon="menu" className="narrow-only" label={texts.showThreads} onClick={() => setDrawer("threads")} />
          <span className="brand">{texts.product}</span>
          <span className="grow" />
          {route.view === "chat" ? (
            <IconButton
              icon="panel"
              label={texts.showPanel}
              pressed={panelOpen}
              onClick={() => (isNarrow() ? setDrawer("panel") : setPanelOpen(!panelOpen))}
            />
          ) : null}
          <a className="inbox-link icon-button" href={inboxAddress} aria-label={texts.inboxCount(waiting)} title={texts.inboxCount(waiting)}>
            <Icon name="inbox" />
            {waiting === 0 ? null : <span className="count">{waiting}</span>}
          </a>
          <Profile user={user} />
        </header>
        <OtherVersion user={user} />
        <SessionEnded user={user} />
        <Boundary view={fragment}>
          <Suspense fallback={<p className="empty">{texts.loading}</p>}>
            {route.view === "chat" ? (
              <ChatView key={chat.id} chat={chat.chat} messageId={route.messageId} shownTurn={turnKey} onShowTurn={showTurn} />
            ) : route.view === "memory" ? (
              <MemoryView user={user} memoryId={route.memoryId} threadId={route.threadId} />
            ) : route.view === "inbox" ? (
              <InboxView user={user} />
            ) : route.view === "operator" && user.scopes.has("admin") ? (
              <OperatorView label={route.label} />
            ) : (
              <PrivacyView user={user} />
            )}
          </Suspense>
        </Boundary>
        <div className="bottom-bar">
          <Views route={route} waiting={waiting} />
        </div>
      </div>
      {route.view !== "chat" ? null : (
        <Side name="panel" label={texts.panel} open={drawer === "panel"} onClose={() => setDrawer(null)}>
          <MemoryPanel chat={chat.chat} turnKey={turnKey} user={user} />
        </Side>
      )}
      <Toasts />
      <LiveRegion />
    </div>
  );
}

/** The ways to the views; in the side on a wide screen, in a bar at the bottom on a phone. */
function Views({ route, waiting }: { route: Route; waiting: number }) {
  const views = [
    { name: "chat", label: texts.chat, icon: "chat", address: chatAddress(null) },
    { name: "memory", label: texts.memory, icon: "memory", address: memoryAddress() },
    { name: "inbox", label: texts.inbox, icon: "inbox", address: inboxAddress },
  ] as const;
  return (
    <nav className="views" aria-label={texts.views}>
      {views.map((view) => (
        <a key={view.name} href={view.address} aria-current={route.view === view.name ? "page" : undefined}>
          <Icon name={view.icon} />
          {view.label}
          {view.name === "inbox" && waiting > 0 ? <span className="count">{waiting}</span> : null}
        </a>
      ))}
    </nav>
  );
}

const isNarrow = () => window.matchMedia("(max-width: 899px)").matches;

function focusMain(event: { preventDefault: () => void }) {
  event.preventDefault();
  (document.getElementById("message") ?? document.getElementById("main"))?.focus();
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
  const items: MenuItem[] = [{ label: texts.privacy, icon: "shield", onSelect: () => go(privacyAddress) }];
  if (user.scopes.has("admin")) items.push({ label: texts.operator, icon: "gauge", onSelect: () => go(operatorAddress()) });
  if (user.hasSession) items.push({ label: texts.signOut, icon: "right", onSelect: () => void attempt(() => endSession(user).then(leavePage)) });
  return (
    <Menu label={texts.profile(user.userId)} items={items}>
      <Icon name="user" />
      <span className="user">{user.userId}</span>
    </Menu>
  );
}

/** A page that its server does not fit is loaded anew when the user is ready. */
function OtherVersion({ user }: { user: User }) {
  const other = useStore(isOtherVersion);
  useEffect(() => {
    if (other) announce(texts.otherVersion);
  }, [other]);
  if (!other) return null;
  return (
    <div className="banner">
      <span>{texts.otherVersion}</span>
      <button type="button" className="primary" onClick={() => reloadPage(user.userId)}>
        {texts.reload}
      </button>
    </div>
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
