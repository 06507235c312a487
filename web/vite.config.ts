import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: {
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
