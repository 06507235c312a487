// A ZIP archive with one stored file, as the format was in 1993: every program opens it.

const crcTable = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

/** Return the CRC-32 of bytes. */
export function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crcTable[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** Return a ZIP archive of files, uncompressed; names are UTF-8. */
export function zip(files: Readonly<Record<string, Uint8Array>>): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const encoded = new TextEncoder().encode(name);
    const fields = [20, 0x0800, 0, 0, 0x21] as const; // version, UTF-8 names, stored, 1 January 1980
    const about = [...fields, crc32(content), content.length, content.length, encoded.length] as const;
    const local = joined([record(0x04034b50, about, 0), encoded, content]);
    directory.push(joined([record(0x02014b50, [20, ...about], offset), encoded]));
    parts.push(local);
    offset += local.length;
  }
  const central = joined(directory);
  return joined([...parts, central, end(directory.length, central.length, offset)]);
}

/** Return the header of a file, or its entry in the directory, which has a second version and an offset. */
function record(signature: number, numbers: readonly number[], offset: number): Uint8Array {
  const inDirectory = signature === 0x02014b50;
  const view = new DataView(new ArrayBuffer(inDirectory ? 46 : 30));
  const words = inDirectory ? 6 : 5;
  let at = 4;
  view.setUint32(0, signature, true);
  numbers.forEach((number, index) => {
    const wide = index >= words && index < words + 3;
    if (wide) view.setUint32(at, number, true);
    else view.setUint16(at, number, true);
    at += wide ? 4 : 2;
  });
  if (inDirectory) view.setUint32(42, offset, true);
  return new Uint8Array(view.buffer);
}

function end(count: number, size: number, offset: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(22));
  view.setUint32(0, 0x06054b50, true);
  view.setUint16(8, count, true);
  view.setUint16(10, count, true);
  view.setUint32(12, size, true);
  view.setUint32(16, offset, true);
  return new Uint8Array(view.buffer);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
