// Where the user writes: a text that grows, files, and whether the turn is remembered.
import { useEffect, useRef, useState, type ClipboardEvent, type DragEvent, type KeyboardEvent } from "react";
import { announce } from "../components/announce.ts";
import { IconButton } from "../components/controls.tsx";
import { Icon } from "../components/icon.tsx";
import { texts } from "../texts.ts";
import { isAtWork, type Chat, type ChatState } from "./chat.ts";
import { accepted, addFiles, maxMessageCharacters } from "./files.ts";

export function Composer({ chat, state }: { chat: Chat; state: ChatState }) {
  const [text, setWritten] = useState(chat.draft);
  const [files, setFiles] = useState<readonly File[]>([]);
  const [refusals, setRefusals] = useState<readonly string[]>([]);
  const [memory, setMemory] = useState(true);
  const [dragging, setDragging] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const busy = isAtWork(state);
  const tooLong = text.length > maxMessageCharacters;
  const ready = text.trim() !== "" && !tooLong && !busy && !state.loading;

  useEffect(() => {
    const box = field.current;
    if (box === null) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, 240)}px`;
  }, [text]);

  useEffect(() => {
    if (tooLong) announce(texts.messageTooLong(field.current?.value.length ?? 0, maxMessageCharacters));
  }, [tooLong]);

  function setText(written: string) {
    chat.draft = written; // it is there again when the user comes back to this conversation
    setWritten(written);
  }

  function choose(beginning: string) {
    setText(beginning);
    field.current?.focus();
  }

  function add(more: Iterable<File>) {
    const selection = addFiles(files, [...more]);
    setFiles(selection.files);
    setRefusals(selection.refusals);
    if (selection.refusals.length > 0) announce(selection.refusals.join(" "));
  }

  async function submit() {
    if (!ready) return;
    const question = { text: text.trim(), files, memory };
    setText("");
    setFiles([]);
    setRefusals([]);
    await chat.ask(question);
    const kept = chat.state().exchanges.some((one) => one.question === question.text);
    if (kept) return;
    if (chat.draft === "") setText(question.text); // the server kept nothing: the draft comes back
    setFiles(question.files);
  }

  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void submit();
  }

  function onPaste(event: ClipboardEvent) {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    add(event.clipboardData.files);
  }

  function onDrop(event: DragEvent) {
    event.preventDefault();
    setDragging(false);
    add(event.dataTransfer.files);
  }

  return (
    <>
      {state.exchanges.length === 0 && !state.loading && text === "" ? <Suggestions onChoose={choose} /> : null}
      <form
        className={`composer ${dragging ? "dragging" : ""}`}
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
        onDragOver={(event) => {
          event.preventDefault();
          setDragging(true);
        }}
        onDragLeave={() => setDragging(false)}
        onDrop={onDrop}
      >
        {dragging ? <p className="drop-hint">{texts.dropFiles}</p> : null}
        <ul className="refusals">
          {[...refusals, ...(tooLong ? [texts.messageTooLong(text.length, maxMessageCharacters)] : [])].map((refusal) => (
            <li key={refusal}>{refusal}</li>
          ))}
        </ul>
        {files.length === 0 ? null : (
          <ul className="chosen-files">
            {files.map((file) => (
              <li key={file.name}>
                <Icon name="file" />
                <span>{file.name}</span>
                <IconButton icon="close" label={texts.removeFile(file.name)} onClick={() => setFiles(files.filter((one) => one !== file))} />
              </li>
            ))}
          </ul>
        )}
        <textarea
          ref={field}
          id="message"
          rows={1}
          value={text}
          aria-label={texts.messageLabel}
          placeholder={texts.messagePlaceholder}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
          autoFocus
        />
        <div className="composer-bar">
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            accept={accepted}
            onChange={(event) => {
              add(event.target.files ?? []);
              event.target.value = "";
            }}
          />
          <IconButton icon="attach" label={texts.attach} onClick={() => picker.current?.click()} />
          <label className="switch" title={texts.notRememberedHint}>
            <input type="checkbox" role="switch" checked={memory} onChange={(event) => setMemory(event.target.checked)} />
            <span className="track" aria-hidden="true" />
            {texts.remember}
          </label>
          <span className="grow" />
          {busy ? (
            <IconButton icon="stop" className="primary" label={texts.stop} onClick={() => void chat.stop()} />
          ) : (
            <button type="submit" className="icon-button primary" aria-label={texts.send} title={texts.send} disabled={!ready}>
              <Icon name="send" />
            </button>
          )}
        </div>
      </form>
    </>
  );
}

/** Beginnings of a first message; the user completes and sends it. */
function Suggestions({ onChoose }: { onChoose: (beginning: string) => void }) {
  return (
    <ul className="suggestions" aria-label={texts.suggestions}>
      {texts.beginnings.map((beginning) => (
        <li key={beginning}>
          <button type="button" onClick={() => onChoose(beginning)}>
            {beginning.endsWith(" ") ? `${beginning}…` : beginning}
          </button>
        </li>
      ))}
    </ul>
  );
}
