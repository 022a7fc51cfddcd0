// Pictures of every view, for people to look at: `target/page`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPage, startBrowser } from "./browser.js";
import { exampleSession, runningSession, waitingSession } from "./events.js";
import { TestServer } from "./server.js";

const folder = process.env.THREADFOLD_SCREENSHOTS ?? fileURLToPath(new URL("../../target/page", import.meta.url));
const server = new TestServer();
let browser: Browser;

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  await server.start();
  await server.push("waiting-session", waitingSession());
  await server.push("example-session", exampleSession());
  const events = exampleSession();
  const compaction = events.findIndex((it) => JSON.stringify(it).includes('"subtype":"compaction"'));
  await server.push("short-session", events.slice(0, compaction));
  await server.push("running-session", runningSession());
  for (const [at, title] of ["Add a dark theme to the settings page", "Why is the build slow on Mondays?", "Port the CSV reader to streams", "Review the payment service", "Upgrade to Postgres 17"].entries()) {
    await server.push(`other-${at}`, [
      { type: "metadata:update", payload: { metadata: { title, model: at % 2 === 0 ? "claude-sonnet-4-5" : "gpt-5.1-codex", cwd: `/home/dev/${["shop", "build", "importer", "payments", "infra"][at]}`, costUsd: 0.2 + at * 0.31 } }, context: { timestamp: `2026-11-1${7 - at}T1${at}:12:00Z` } },
      { type: "block:upsert", payload: { block: { id: "u", type: "user_message", status: "complete", conversationId: "main", content: title } } },
    ]);
  }
  browser = await startBrowser();
});

afterAll(async () => {
  await browser.close();
  await server.remove();
});

/** Opens the block that the address names. */
async function openSelected(page: Page): Promise<void> {
  const button = page.locator(".row.is-selected .fold-button");
  await button.waitFor();
  await page.waitForTimeout(200);
  await button.click();
  await page.mouse.move(2, 400);
  await page.waitForTimeout(500);
}

const views: [string, string, (page: Page) => Promise<void>][] = [
  ["sessions", "", async (page) => page.getByText("Fix the flaky retry test").first().waitFor()],
  [
    "conversation",
    "/s/example-session",
    async (page) => {
      await page.getByRole("feed").waitFor();
      await page.keyboard.press("Home");
    },
  ],
  ["tool-diff", "/s/example-session?block=t4", openSelected],
  ["tool-in-context", "/s/short-session?block=t4", openSelected],
  ["tool-shell", "/s/example-session?block=t1", openSelected],
  ["tool-image", "/s/example-session?block=t6", openSelected],
  [
    "subagent-running",
    "/s/running-session",
    async (page) => {
      await page.locator(".subagent .fold-button").first().click();
      await page.waitForTimeout(200);
    },
  ],
  ["subagent-alone", "/s/running-session/a/runner", async (page) => page.getByRole("heading", { name: "Measure the memory" }).waitFor()],
  ["compaction", "/s/example-session", async (page) => page.getByText("The context was compacted").waitFor()],
  ["waiting", "/s/waiting-session", async (page) => page.getByText("Waits for you").first().waitFor()],
  [
    "time-travel",
    "/s/example-session?at=26",
    async (page) => {
      await page.getByRole("slider", { name: "Record" }).waitFor();
      await page.keyboard.press("h");
    },
  ],
  ["timeline", "/s/example-session?view=timeline", async (page) => page.getByRole("heading", { name: "Longest calls" }).waitFor()],
  [
    "palette",
    "/s/example-session",
    async (page) => {
      await page.getByRole("feed").waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("retr");
    },
  ],
  [
    "keys",
    "/s/example-session",
    async (page) => {
      await page.getByRole("feed").waitFor();
      await page.keyboard.press("?");
    },
  ],
];

for (const [width, height] of [[1440, 900], [1024, 768], [390, 844]] as const) {
  for (const theme of ["light", "dark"] as const) {
    test.concurrent(`views at ${width} px, ${theme}`, async () => {
      for (const [name, hash, prepare] of views) {
        const { page, problems, context } = await openPage(browser, server, hash, { width, height, theme });
        await prepare(page);
        await page.waitForTimeout(350);
        await page.screenshot({ path: join(folder, `${name}-${width}-${theme}.png`) });
        const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        expect(isWide, `${name} is wider than the page`).toBe(false);
        expect(problems, name).toEqual([]);
        await context.close();
      }
    });
  }
}
