// The conversation that is shown: its exchanges, and the composer below them.
import { useEffect, useRef, useState } from "react";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { isSessionOver } from "../api/client.ts";
import { announce } from "../components/announce.ts";
import { IconButton } from "../components/controls.tsx";
import { useFocusedRow } from "../components/use-focused-row.ts";
import { chatAddress } from "../route.ts";
import { sessionEnded } from "../stores/toasts.ts";
import { texts } from "../texts.ts";
import { isAtWork, type Chat, type ChatState } from "./chat.ts";
import { Composer } from "./composer.tsx";
import { ExchangeView } from "./exchange-view.tsx";
import { lastTurn } from "./exchanges.ts";
import { freshChat, useChatState } from "./use-chats.ts";

interface ChatViewProps {
  chat: Chat;
  /** A message to scroll to and highlight. */
  messageId: string | null;
  shownTurn: string | null;
  onShowTurn: (key: string) => void;
}

export function ChatView({ chat, messageId, shownTurn, onShowTurn }: ChatViewProps) {
  const state = useChatState(chat);
  useEffect(() => {
    chat.reload();
    const onShow = () => (document.visibilityState === "visible" ? chat.reload() : undefined);
    document.addEventListener("visibilitychange", onShow);
    return () => document.removeEventListener("visibilitychange", onShow);
  }, [chat]);
  useEffect(() => {
    if (state.notice !== null && isSessionOver(state.notice)) sessionEnded.set(true);
  }, [state.notice]);
  useAnnouncements(state);
  return (
    <main id="main" className="chat" aria-label={texts.conversation} tabIndex={-1}>
      {state.exchanges.length === 0 ? null : <h1 className="unseen">{texts.conversation}</h1>}
      {state.failure !== null ? (
        <Failure state={state} chat={chat} />
      ) : (
        <Exchanges chat={chat} state={state} messageId={messageId} shownTurn={shownTurn} onShowTurn={onShowTurn} />
      )}
      {state.connection === "reconnecting" ? <p className="connection">{texts.reconnecting}</p> : null}
      {state.notice === null ? null : (
        <p className="connection failed">
          {state.notice.status === 0 ? texts.lostTurn : texts.failed(state.notice.message)}
          <IconButton icon="close" label={texts.close} onClick={() => chat.clearNotice()} />
        </p>
      )}
      {state.failure === null ? <Composer chat={chat} state={state} /> : null}
    </main>
  );
}

function Failure({ state, chat }: { state: ChatState; chat: Chat }) {
  const gone = state.failure?.status === 404 || state.failure?.status === 422;
  return (
    <div className="empty">
      <h1>{gone ? texts.threadGone : texts.threadAway}</h1>
      {gone ? (
        <a className="primary" href={chatAddress(null)} onClick={() => takeDraft(chat)}>
          {texts.newChat}
        </a>
      ) : (
        <button type="button" className="primary" onClick={() => chat.reload()}>
          {texts.tryAgain}
        </button>
      )}
    </div>
  );
}

/** What was written to a conversation that is gone is offered to a new one. */
function takeDraft(chat: Chat) {
  freshChat().draft ||= chat.draft;
}

function Exchanges({ chat, state, messageId, shownTurn, onShowTurn }: ChatViewProps & { state: ChatState }) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const [atEnd, setAtEnd] = useState(true);
  const [kept, keepFocused] = useFocusedRow();
  const { exchanges } = state;

  const sought = messageId === null ? -1 : exchanges.findIndex((one) => hasMessage(one, messageId));
  useEffect(() => {
    if (sought >= 0) list.current?.scrollToIndex(sought, { align: "center" });
  }, [sought]);
  useEffect(() => {
    if (state.connection === "connecting") setAtEnd(true); // what the user has just said is shown
  }, [state.connection]);
  useEffect(() => {
    if (atEnd && sought < 0) list.current?.scrollToIndex(exchanges.length - 1, { align: "end" });
  }, [atEnd, exchanges, sought]);

  function onScroll() {
    const box = scroller.current;
    if (box !== null) setAtEnd(box.scrollHeight - box.scrollTop - box.clientHeight < 80);
  }

  if (state.loading) return <p className="empty">{texts.loading}</p>;
  if (exchanges.length === 0) {
    return (
      <div className="empty">
        <h1>{texts.emptyChat}</h1>
        <p>{texts.emptyChatHint}</p>
      </div>
    );
  }
  return (
    <>
      <div ref={scroller} className="exchanges" role="log" aria-live="off" aria-label={texts.conversation} tabIndex={0} onFocus={keepFocused} onScroll={onScroll}>
        <Virtualizer ref={list} scrollRef={scroller} keepMounted={kept}>
          {exchanges.map((exchange, index) => (
            <ExchangeView
              key={exchange.key}
              index={index}
              chat={chat}
              exchange={exchange}
              record={state.records.get(exchange.messageId ?? "")}
              branch={exchange.place === null ? undefined : state.branches.get(exchange.place)}
              last={index === exchanges.length - 1}
              busy={isAtWork(state)}
              soughtMessage={index === sought ? messageId : null}
              shown={shownTurn === exchange.key}
              onShowTurn={onShowTurn}
            />
          ))}
        </Virtualizer>
      </div>
      {atEnd ? null : (
        <div className="to-bottom">
          <IconButton icon="down" label={texts.toBottom} onClick={() => setAtEnd(true)} />
        </div>
      )}
    </>
  );
}

function hasMessage(exchange: ChatState["exchanges"][number], messageId: string): boolean {
  if (exchange.messageId === messageId) return true;
  return exchange.turns.some((turn) => turn.parts.some((part) => part.kind === "text" && part.messageId === messageId));
}

/** Say in sentences what a sighted user sees at once: that the reply is there, or what keeps it away. */
function useAnnouncements(state: ChatState) {
  const exchange = state.exchanges.at(-1);
  const status = exchange === undefined || !exchange.seen ? null : lastTurn(exchange).status;
  const before = useRef(status);
  useEffect(() => {
    if (before.current === "running" && status === "done") announce(texts.replyDone);
    if (before.current === "running" && status === "interrupted") announce(texts.question);
    before.current = status;
  }, [status]);
  useEffect(() => {
    if (state.connection === "reconnecting") announce(texts.reconnecting);
  }, [state.connection]);
}
