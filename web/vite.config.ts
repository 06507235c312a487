import { readFileSync } from "node:fs";
import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const source = readFileSync(join(import.meta.dirname, "../src/threadkeep/__init__.py"), "utf-8");
const version = /^__version__ = "(.+)"$/m.exec(source)?.[1];
if (version === undefined) throw new Error("src/threadkeep/__init__.py names no version.");

export default defineConfig({
  plugins: [react()],
  define: { THREADKEEP_VERSION: JSON.stringify(version) },
  resolve: {
    alias: {
      "eventsource-parser": join(import.meta.dirname, "node_modules/eventsource-parser"), // of packages/client-typescript
      // Its form for browsers decodes `&amp;` by innerHTML, which Trusted Types refuse.
      "decode-named-character-reference": join(import.meta.dirname, "node_modules/decode-named-character-reference/index.js"),
    },
  },
  build: {
    outDir: "../src/threadkeep/web/assets",
    emptyOutDir: true,
    assetsInlineLimit: 0, // a data: URL of a script or font is refused by the page's Content-Security-Policy
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: { proxy: { "/api": "http://localhost:8000", "/auth": "http://localhost:8000" } },
});
