// Real agents, the real server and a real browser: what the page shows is what the server has.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPage, received, shownHash, startBrowser, type Watched } from "./browser.js";
import { agentsFolder, agentsProgram, program, TestServer, until } from "./server.js";

interface AgentLine {
  readonly home?: string;
  readonly unavailable?: string;
  readonly agent?: "claude" | "opencode";
  readonly session?: string;
  readonly line?: string;
  readonly ended?: boolean;
  readonly error?: string | null;
}

/** Both agents, their streams pushed to a server as `… | threadfold push` does. */
class Agents {
  readonly #process = spawn(agentsProgram, [agentsFolder], { stdio: ["pipe", "pipe", "inherit"] });
  readonly #lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  readonly #pushes = new Map<string, ChildProcess>();
  readonly sessions = new Map<string, string>();
  readonly ended = new Map<string, string | null>();
  home = "";

  async start(): Promise<string | undefined> {
    const first = JSON.parse((await this.#lines.next()).value as string) as AgentLine;
    this.home = first.home ?? "";
    return first.unavailable;
  }

  run(server: TestServer): void {
    this.#process.stdin!.write("start\n");
    void this.#forward(server);
  }

  async #forward(server: TestServer): Promise<void> {
    for (let it = await this.#lines.next(); it.done !== true; it = await this.#lines.next()) {
      const { agent, session, line, ended, error } = JSON.parse(it.value) as AgentLine;
      if (agent === undefined) continue;
      if (session !== undefined) {
        this.sessions.set(agent, session);
        const more = agent === "opencode" ? ["--session", session] : [];
        const push = spawn(program, ["push", "--url", server.direct, "--token-file", server.tokenFile, ...more], { stdio: ["pipe", "ignore", "inherit"] });
        this.#pushes.set(agent, push);
      }
      if (line !== undefined) this.#pushes.get(agent)?.stdin!.write(`${line}\n`);
      if (ended === true) {
        this.#pushes.get(agent)?.stdin!.end();
        this.ended.set(agent, error ?? null);
      }
    }
  }

  release(gate: "inner" | "last"): void {
    this.#process.stdin!.write(`release ${gate}\n`);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.stdin!.end();
    if (this.#process.exitCode === null) await ended;
    for (const push of this.#pushes.values()) push.kill();
  }
}

const agents = new Agents();
let server: TestServer;
let browser: Browser;
let unavailable: string | undefined;

beforeAll(async () => {
  unavailable = await agents.start();
  if (unavailable !== undefined) return;
  server = new TestServer(agents.home);
  await server.start();
  browser = await startBrowser();
});

afterAll(async () => {
  await agents.stop();
  await browser?.close();
  await server?.remove();
});

/** Waits until a page has what the server has, and nothing more comes. */
async function agrees({ page }: Watched, session: string): Promise<void> {
  let last = "";
  await until(async () => {
    const [mine, theirs] = [await received(page), await server.state(session)];
    last = JSON.stringify([mine, theirs.seq, theirs.stateHash]);
    return mine?.seq === theirs.seq && mine.hash === theirs.stateHash;
  }, "the page agrees with the server").catch((error: unknown) => {
    throw new Error(`${String(error)} ${last}`);
  });
}

test("live sessions of real agents are followed, through disconnects and restarts", async ({ skip }) => {
  if (unavailable !== undefined) return skip(`real agents cannot run here: ${unavailable}`);
  const list = await openPage(browser, server);
  agents.run(server);
  await until(() => agents.sessions.size === 2, "both agents run");
  // Both appear in the list by themselves, as live.
  const claude = agents.sessions.get("claude")!;
  const opencode = agents.sessions.get("opencode")!;
  for (const id of [claude, opencode]) {
    await list.page.locator(`a[href="#/s/${id}"]:is(.is-live, .is-working)`).waitFor({ timeout: 60_000 });
  }
  const one = await openPage(browser, server, `/s/${claude}`);
  const two = await openPage(browser, server, `/s/${opencode}`);

  for (const { page } of [one, two]) {
    // Two subagents at once, and one inside of the other, while all of them run.
    await page.getByRole("article").filter({ hasText: "Count with help" }).first().waitFor({ timeout: 90_000 });
    await page.getByRole("article").filter({ hasText: "Count alone" }).first().waitFor({ timeout: 90_000 });
    await page.getByRole("link", { name: "Open subagent Count with help" }).click();
    const inner = page.getByRole("link", { name: "Open subagent Count inside" });
    await inner.waitFor({ timeout: 90_000 });
    await inner.click();
    await page.getByRole("heading", { level: 1, name: "Count inside" }).waitFor();
    await page.getByText("The inner one begins.").waitFor({ timeout: 60_000 });
    await page.locator(".facts .running").waitFor();
    const crumbs = page.getByRole("navigation", { name: "Where you are" });
    expect(await crumbs.getByRole("link").allInnerTexts()).toContain("Count with help");
  }

  for (let round = 0; round < 5; round += 1) {
    expect(server.cut()).toBeGreaterThan(0);
    await until(async () => ((await received(one.page))?.connects ?? 0) > round + 1, "it reconnects");
  }
  agents.release("inner");
  await one.page.getByText("The inner one has counted three lines").waitFor({ timeout: 60_000 });
  for (const { page } of [one, two]) await page.getByRole("link", { name: "All sessions" }).click();
  await one.page.goBack();
  await one.page.evaluate((id) => (location.hash = `#/s/${id}`), claude);
  await two.page.evaluate((id) => (location.hash = `#/s/${id}`), opencode);
  await server.restart("SIGKILL");
  agents.release("last");
  for (const { page } of [one, two]) {
    await page.getByText("The notes have three lines.").first().waitFor({ timeout: 90_000 });
  }
  await until(() => agents.ended.size === 2, "both agents end", 90_000);
  expect([...agents.ended.values()]).toEqual([null, null]);

  await agrees(one, claude);
  await agrees(two, opencode);
  // Another tab agrees, and the first one still does after an orderly restart.
  const other = await openPage(browser, server, `/s/${claude}`);
  await agrees(other, claude);
  await server.restart();
  await agrees(one, claude);
  expect((await received(one.page))!.hash).toBe((await received(other.page))!.hash);
  expect(await shownHash(one.page)).toBe((await server.state(claude)).stateHash);
  for (const it of [list, one, two, other]) expect(it.problems).toEqual([]);
});

test("any of fifty records shows the fold of all records up to it", async ({ skip }) => {
  if (unavailable !== undefined) return skip(`real agents cannot run here: ${unavailable}`);
  const claude = agents.sessions.get("claude")!;
  const { seq: head } = await server.state(claude);
  const watched = await openPage(browser, server, `/s/${claude}?at=1`);
  const { page } = watched;
  await page.getByRole("slider", { name: "Record" }).waitFor();
  for (let count = 0; count < 50; count += 1) {
    const seq = 1 + Math.floor(Math.random() * head);
    const expected = (await server.state(claude, seq)).stateHash;
    await page.evaluate(([id, at]) => (location.hash = `#/s/${id}?at=${at}`), [claude, seq] as const);
    await until(async () => (await shownHash(page)) === expected, `record ${seq} of ${head}`, 5_000);
  }
  await page.keyboard.press("Escape");
  await until(async () => (await shownHash(page)) === (await server.state(claude)).stateHash, "it is live again");
  expect(new URL(page.url()).hash).toBe(`#/s/${claude}`);
  expect(watched.problems).toEqual([]);
});
