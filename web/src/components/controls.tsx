// Buttons, menus and dialogs on the browser's own elements.
import { useEffect, useId, useRef, type KeyboardEvent, type ReactNode } from "react";
import { texts } from "../texts.ts";
import { Icon, type IconName } from "./icon.tsx";

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick?: () => void;
  disabled?: boolean;
  pressed?: boolean;
  className?: string;
}

/** A button that shows an icon only; its label is read aloud and shown on hover. */
export function IconButton({ icon, label, onClick, disabled, pressed, className = "" }: IconButtonProps) {
  return (
    <button
      type="button"
      className={`icon-button ${className}`}
      aria-label={label}
      title={label}
      onClick={onClick}
      disabled={disabled}
      aria-pressed={pressed}
    >
      <Icon name={icon} />
    </button>
  );
}

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  onSelect: () => void;
}

interface MenuProps {
  label: string;
  icon?: IconName;
  children?: ReactNode;
  items: readonly MenuItem[];
}

/** A button that opens a menu; arrow keys move in it, Escape closes it and returns the focus. */
export function Menu({ label, icon = "more", children, items }: MenuProps) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  function place() {
    const [menu, opener] = [list.current, button.current];
    if (menu === null || opener === null) return;
    const at = opener.getBoundingClientRect();
    const above = at.bottom + menu.offsetHeight + 8 > window.innerHeight;
    menu.style.top = `${Math.max(8, above ? at.top - menu.offsetHeight - 4 : at.bottom + 4)}px`;
    menu.style.left = `${Math.max(8, Math.min(at.right - menu.offsetWidth, window.innerWidth - menu.offsetWidth - 8))}px`;
  }

  function onToggle(open: boolean) {
    button.current?.setAttribute("aria-expanded", String(open));
    if (!open) return;
    place();
    list.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  }

  function onKeyDown(event: KeyboardEvent) {
    const options = [...(list.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const here = options.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: here + 1, ArrowUp: here - 1 + options.length, Home: 0, End: options.length - 1 }[event.key];
    if (event.key === "Tab") list.current?.hidePopover();
    if (next === undefined) return;
    event.preventDefault();
    options[next % options.length]?.focus();
  }

  return (
    <>
      <button
        ref={button}
        type="button"
        className={children === undefined ? "icon-button" : "menu-button"}
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded="false"
        popoverTarget={id}
      >
        {children ?? <Icon name={icon} />}
      </button>
      <div
        ref={list}
        id={id}
        className="menu"
        popover="auto"
        role="menu"
        aria-label={label}
        onKeyDown={onKeyDown}
        onToggle={(event) => onToggle((event.nativeEvent as ToggleEvent).newState === "open")}
      >
        {items.map((item) => (
          <button
            key={item.label}
            type="button"
            role="menuitem"
            tabIndex={-1}
            className={item.danger ? "danger" : ""}
            onClick={() => {
              list.current?.hidePopover();
              item.onSelect();
            }}
          >
            {item.icon === undefined ? null : <Icon name={item.icon} />}
            {item.label}
          </button>
        ))}
      </div>
    </>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

/** A modal dialog; the page behind it is inert, and the focus returns to where it was. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    if (shown !== null && !shown.open) shown.showModal();
    shown?.querySelector<HTMLElement>("[data-autofocus]")?.focus();
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onCancel={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <div className="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label={texts.close} onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  text: string;
  action: string;
  /** What follows the text. */
  children?: ReactNode;
  onConfirm: () => void;
  onClose: () => void;
}

/** A dialog that asks before something is done that cannot be undone. */
export function Confirm({ title, text, action, children, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{text}</p>
      {children}
      <div className="actions">
        <button type="button" onClick={onClose}>
          {texts.cancel}
        </button>
        <button
          type="button"
          className="primary danger"
          onClick={() => {
            onClose();
            onConfirm();
          }}
        >
          {action}
        </button>
      </div>
    </Dialog>
  );
}

interface TextEditorProps {
  label: string;
  text: string;
  action: string;
  onSubmit: (text: string) => void;
  onClose: () => void;
}

/** Changes a text where it stands: Enter keeps the new one, Escape the old one; the focus returns to where it was. */
export function TextEditor({ label, text, action, onSubmit, onClose }: TextEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  function submit() {
    const written = field.current?.value.trim() ?? "";
    if (written === "") return;
    onClose();
    onSubmit(written);
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter" && !event.shiftKey && event.target === field.current) submit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  return (
    <form
      className="editor"
      onKeyDown={onKeyDown}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea ref={field} aria-label={label} defaultValue={text} rows={2} />
      <div className="actions">
        <button type="button" onClick={onClose}>
          {texts.cancel}
        </button>
        <button type="submit" className="primary">
          {action}
        </button>
      </div>
    </form>
  );
}

interface TextDialogProps {
  title: string;
  label: string;
  text: string;
  action: string;
  hint?: string;
  danger?: boolean;
  maxLength?: number;
  rows?: number;
  onSubmit: (text: string) => void;
  onClose: () => void;
}

/** A dialog with one text to write. */
export function TextDialog({ title, label, text, action, hint, danger = false, maxLength, rows = 1, onSubmit, onClose }: TextDialogProps) {
  const field = useRef<HTMLTextAreaElement & HTMLInputElement>(null);
  const id = useId();
  function submit() {
    const written = field.current?.value.trim() ?? "";
    if (written === "") return;
    onClose();
    onSubmit(written);
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        {hint === undefined ? null : <p>{hint}</p>}
        <label htmlFor={id}>{label}</label>
        {rows === 1 ? (
          <input ref={field} id={id} defaultValue={text} maxLength={maxLength} data-autofocus />
        ) : (
          <textarea ref={field} id={id} defaultValue={text} rows={rows} data-autofocus />
        )}
        <div className="actions">
          <button type="button" onClick={onClose}>
            {texts.cancel}
          </button>
          <button type="submit" className={danger ? "primary danger" : "primary"}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
