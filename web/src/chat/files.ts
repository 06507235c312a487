// Which files a turn may have: the limits of the gateway, checked before anything is sent.
import { texts } from "../texts.ts";

export const maxFiles = 5;
export const maxFileBytes = 10_000_000;
export const maxMessageCharacters = 64_000;

const readable = /\.(txt|text|md|markdown|json|ipynb|csv|log|pdf|docx|pptx|xlsx|html?|py|ts|js|yaml|yml|toml)$/i;

export const accepted = ".txt,.md,.json,.ipynb,.csv,.log,.pdf,.docx,.pptx,.xlsx,.html,.py,.ts,.js,.yaml,.yml,.toml";

/** Return which share of each file has been sent, once so many bytes of them all have. */
export function sharesSent(files: readonly File[], bytes: number): number[] {
  let before = 0;
  return files.map(({ size }) => {
    const share = size === 0 ? 1 : Math.min(Math.max((bytes - before) / size, 0), 1);
    before += size;
    return share;
  });
}

export interface Selection {
  files: File[];
  /** A sentence for each file that was refused. */
  refusals: string[];
}

/** Add files to those that were chosen before; each that cannot be sent is refused by its name. */
export function addFiles(chosen: readonly File[], more: readonly File[]): Selection {
  const files = [...chosen];
  const refusals: string[] = [];
  for (const file of more) {
    if (!readable.test(file.name)) refusals.push(texts.fileType(file.name));
    else if (file.size > maxFileBytes) refusals.push(texts.fileTooLarge(file.name, maxFileBytes / 1_000_000));
    else if (files.length >= maxFiles) refusals.push(texts.tooManyFiles(file.name, maxFiles));
    else files.push(file);
  }
  return { files, refusals };
}
