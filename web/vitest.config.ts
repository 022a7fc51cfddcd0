import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    // Each file starts a browser and a server of its own, and mostly waits for them.
    maxWorkers: 2,
    maxConcurrency: 2,
    pool: "forks",
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
