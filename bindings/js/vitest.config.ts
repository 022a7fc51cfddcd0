import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.{ts,tsx}"],
    typecheck: { enabled: true, include: ["tests/**/*.test-d.ts"], tsconfig: "tests/tsconfig.json" },
    // Tests of memory need a collection that can be forced.
    pool: "forks",
    execArgv: ["--expose-gc"],
    testTimeout: 60_000,
  },
});
