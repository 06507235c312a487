// Markdown of a model: no raw HTML, no images from elsewhere, and links that say where they lead.
import { memo, useRef, useState, type ComponentProps, type ReactNode } from "react";
import Markdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { texts } from "../texts.ts";
import { IconButton } from "./controls.tsx";

const plugins = [remarkGfm];
const schemes = new Set(["http:", "https:", "mailto:"]);

/** Return the address if it has one of the allowed schemes, as an absolute address; otherwise null. */
export function safeAddress(address: string | undefined): string | null {
  if (address === undefined || !URL.canParse(address)) return null;
  return schemes.has(new URL(address).protocol) ? address : null;
}

function Link({ address, children }: { address: string | undefined; children: ReactNode }) {
  const safe = safeAddress(address);
  if (safe === null) return <span>{children}</span>;
  return (
    <a href={safe} target="_blank" rel="noopener noreferrer" title={safe}>
      {children}
    </a>
  );
}

function CodeBlock(props: ComponentProps<"pre">) {
  const block = useRef<HTMLPreElement>(null);
  const [copied, setCopied] = useState(false);
  return (
    <div className="code-block">
      <IconButton
        icon={copied ? "check" : "copy"}
        label={copied ? texts.copied : texts.copyCode}
        onClick={() => void navigator.clipboard.writeText(block.current?.textContent ?? "").then(() => setCopied(true))}
      />
      <pre ref={block} tabIndex={0}>
        {props.children}
      </pre>
    </div>
  );
}

const components: Components = {
  a: ({ href, children }) => <Link address={href}>{children}</Link>,
  img: ({ src, alt }) => <Link address={typeof src === "string" ? src : undefined}>{texts.image(alt ?? "", String(src ?? ""))}</Link>,
  pre: CodeBlock,
  table: ({ children }) => (
    <div className="table" tabIndex={0} role="group" aria-label={texts.table}>
      <table>{children}</table>
    </div>
  ),
  input: ({ checked }) => <span aria-hidden="true">{checked ? "☑ " : "☐ "}</span>,
  h1: ({ children }) => <h3>{children}</h3>,
  h2: ({ children }) => <h4>{children}</h4>,
  h3: ({ children }) => <h5>{children}</h5>,
};

export const MarkdownText = memo(function MarkdownText({ text }: { text: string }) {
  return (
    <div className="markdown">
      <Markdown remarkPlugins={plugins} components={components} urlTransform={(address) => safeAddress(address) ?? ""}>
        {text}
      </Markdown>
    </div>
  );
});
