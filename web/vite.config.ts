// One classic script and one style sheet: they run from a server, from a file and inside a notebook's frame.
import { defineConfig } from "vitest/config";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/pellucid/server/static",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/main.tsx", formats: ["iife"], name: "pellucid", fileName: () => "pellucid.js", cssFileName: "pellucid" },
  },
  test: { include: ["tests/*.test.ts"] },
});
