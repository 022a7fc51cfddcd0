// The page for those who do not use a mouse, or do not see it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPage, startBrowser } from "./browser.js";
import { exampleSession, runningSession, waitingSession } from "./events.js";
import { TestServer } from "./server.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const server = new TestServer();
let browser: Browser;

beforeAll(async () => {
  await server.start();
  await server.push("example-session", exampleSession());
  await server.push("running-session", runningSession());
  await server.push("waiting-session", waitingSession());
  browser = await startBrowser();
});

afterAll(async () => {
  await browser.close();
  await server.remove();
});

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly impact: string; readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[] }[];
}

async function violations(page: Page): Promise<string[]> {
  // Evaluated by the debugger, which the content policy does not concern.
  await page.evaluate(axe);
  const result = await page.evaluate(() => (globalThis as unknown as { axe: { run: () => Promise<AxeResult> } }).axe.run());
  const serious = result.violations.filter((it) => ["serious", "critical"].includes(it.impact));
  return serious.map((it) => `${it.id}: ${it.nodes.map((node) => `${node.html.slice(0, 160)} (${node.failureSummary.slice(0, 200)})`).join("; ")}`);
}

const views: [string, string, (page: Page) => Promise<void>][] = [
  ["sessions", "", async (page) => page.getByText("Fix the flaky retry test").waitFor()],
  [
    "a conversation with everything open",
    "/s/example-session",
    async (page) => {
      await page.getByRole("feed").waitFor();
      await page.evaluate(() => document.querySelectorAll<HTMLElement>('[aria-expanded="false"]').forEach((it) => it.click()));
      await page.waitForTimeout(400);
    },
  ],
  ["a session that runs", "/s/running-session", async (page) => page.getByText("Measure the memory").first().waitFor()],
  ["a session that waits", "/s/waiting-session", async (page) => page.getByText("Waits for you").first().waitFor()],
  ["a subagent", "/s/example-session/a/agent1", async (page) => page.getByRole("heading", { name: "Check the callers" }).waitFor()],
  ["time travel", "/s/example-session?at=12", async (page) => page.getByRole("slider", { name: "Record" }).waitFor()],
  ["the timeline", "/s/example-session?view=timeline", async (page) => page.getByRole("heading", { name: "Longest calls" }).waitFor()],
  [
    "the palette",
    "/s/example-session",
    async (page) => {
      await page.getByRole("feed").waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("retry");
      await page.waitForTimeout(200);
    },
  ],
  [
    "the keys",
    "/s/example-session",
    async (page) => {
      await page.getByRole("feed").waitFor();
      await page.keyboard.press("?");
      await page.getByRole("heading", { name: "Keys" }).waitFor();
    },
  ],
  ["a session that does not exist", "/s/no-such-session", async (page) => page.getByRole("alert").waitFor()],
];

for (const theme of ["light", "dark"] as const) {
  test.each(views)(`axe finds nothing serious in %s, ${theme}`, async (_, hash, prepare) => {
    const watched = await openPage(browser, server, hash, { theme });
    await prepare(watched.page);
    expect(await violations(watched.page)).toEqual([]);
    expect(watched.problems).toEqual([]);
    await watched.context.close();
  });
}

test("a page without its token asks for it", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(server.url);
  await page.getByLabel("Token").fill(server.token);
  await page.keyboard.press("Enter");
  await page.getByText("Fix the flaky retry test").waitFor();
  expect(page.url()).not.toContain(server.token);
  await context.close();
});

test("everything is done with the keyboard alone", async () => {
  const { page, problems, context } = await openPage(browser, server);
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const hash = () => page.evaluate(() => location.hash);
  await page.getByText("Fix the flaky retry test").waitFor();
  expect(await page.evaluate(() => location.hash), "the token is not in the address").not.toContain("token");
  // What waits for a person is first.
  await press("j");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("Clean up the staging database");
  await press("/");
  await page.keyboard.type("flaky retry");
  await page.getByText("1 of ").waitFor();
  await press("Enter");
  await page.getByRole("feed").waitFor();
  expect(await hash()).toBe("#/s/example-session");
  // To the failure, and open it.
  await press("Home", "e");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Tool Bash");
  await press("Enter");
  await page.getByText("assertion `left == right` failed").waitFor();
  await press("Enter");
  // Into a subagent, and up again.
  for (let at = 0; at < 40; at += 1) {
    await press("j");
    if ((await page.evaluate(() => document.activeElement?.textContent))?.includes("Check the callers") === true) break;
  }
  await press("o");
  await page.getByRole("heading", { level: 1, name: "Check the callers" }).waitFor();
  await press("u");
  await page.getByRole("heading", { level: 1, name: "Fix the flaky retry test" }).waitFor();
  // The timeline, time travel, and live again.
  await press("v");
  await page.getByRole("heading", { name: "Longest calls" }).waitFor();
  await press("+", "0", "v");
  await page.getByRole("heading", { name: "Longest calls" }).waitFor({ state: "detached" });
  await press("t");
  await page.getByRole("slider", { name: "Record" }).waitFor();
  const end = await hash();
  expect(end).toContain("at=");
  await press("[", "[", "h");
  await page.waitForFunction((it) => location.hash !== it, end);
  await press("Escape");
  expect(await hash()).toBe("#/s/example-session");
  // The switch, the palette, the keys, the theme.
  await press("m");
  await page.getByRole("button", { name: "What the model saw", pressed: true }).waitFor();
  await page.getByText("I look at the failing test").waitFor({ state: "detached" });
  await press("m", "Control+k");
  await page.keyboard.type("staging database");
  await page.getByRole("option", { name: /Clean up the staging/ }).waitFor();
  await press("Enter");
  await page.getByText("Waits for you").first().waitFor();
  await press("?");
  await page.getByRole("dialog").waitFor();
  await press("Escape", "D");
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("light");
  await press("g", "s");
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  // With Tab alone: links and buttons in order.
  await press("Tab", "Tab");
  expect(await page.evaluate(() => document.activeElement?.tagName)).toMatch(/^(A|BUTTON|INPUT)$/);
  expect(problems).toEqual([]);
  await context.close();
});

test("the end of an answer is announced once, and its words are not", async () => {
  const { page, context } = await openPage(browser, server, "/s/announced");
  const text = (content: string, status: string) => ({ type: "block:upsert", payload: { block: { id: "x", type: "assistant_text", status, content, conversationId: "main" } } });
  await server.push("announced", [text("One", "pending")]);
  await page.evaluate(() => location.reload());
  await page.getByText("One").waitFor();
  await page.evaluate(() => {
    const spoken: string[] = [];
    Object.assign(globalThis, { spoken });
    new MutationObserver((changes) => {
      for (const { target } of changes) {
        const region = (target instanceof Element ? target : target.parentElement)?.closest("[aria-live]");
        if (region != null) spoken.push(region.textContent ?? "");
      }
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  for (const word of [" two", " three", " four"]) {
    await server.push("announced", [{ type: "block:delta", payload: { blockId: "x", delta: word } }]);
    await page.getByText(word.trim()).waitFor();
  }
  await server.push("announced", [text("One two three four", "complete"), { type: "session:idle", payload: {} }]);
  await page.waitForFunction(() => (globalThis as unknown as { spoken: string[] }).spoken.length > 0);
  expect(await page.evaluate(() => (globalThis as unknown as { spoken: string[] }).spoken)).toEqual(["The agent has finished"]);
  await context.close();
});
