import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { crc32, zip } from "./zip.ts";

test("the checksum is that of the format", () => {
  assert.equal(crc32(new TextEncoder().encode("123456789")), 0xcbf43926);
});

test("another program reads the archive", { skip: process.platform === "win32" }, () => {
  const folder = mkdtempSync(join(tmpdir(), "zip-"));
  try {
    const path = join(folder, "a.zip");
    writeFileSync(path, zip({ "é.jsonl": new TextEncoder().encode('{"text":"Rome"}\n'), "empty.txt": new Uint8Array() }));
    const program = "import sys,zipfile;z=zipfile.ZipFile(sys.argv[1]);print(z.testzip(),sorted(z.namelist())==['empty.txt','é.jsonl'],z.read('é.jsonl'))";
    const read = execFileSync("python3", ["-c", program, path], { encoding: "utf-8" });
    assert.equal(read.trim(), "None True b'{\"text\":\"Rome\"}\\n'");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
