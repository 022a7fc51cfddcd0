// A real Chromium. A page fails its test with any request elsewhere, any violation of the content
// policy, and any error.

import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { TestServer } from "./server.js";

export async function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--js-flags=--expose-gc", "--enable-precise-memory-info"],
  });
}

export interface Watched {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What must not happen, as it happened. */
  readonly problems: string[];
}

export interface ViewportOptions {
  readonly width?: number;
  readonly height?: number;
  readonly theme?: "light" | "dark";
}

export async function openPage(browser: Browser, server: TestServer, hash = "", { width = 1280, height = 800, theme = "light" }: ViewportOptions = {}): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const problems: string[] = [];
  const origin = new URL(server.url).origin;
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("popup", (popup) => problems.push(`popup: ${popup.url()}`));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to/i.test(message.text())) problems.push(`policy: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol === "data:") return;
    if (url.origin !== origin) problems.push(`request: ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  // The token comes with the fragment, and then the place.
  await page.goto(`${server.url}/#token=${server.token}${hash === "" ? "" : `&${hash.replace(/^#/, "")}`}`);
  return { page, context, problems };
}

interface LiveHandle {
  readonly shownHash: string | undefined;
  readonly received: { seq: number | undefined; hash: string; gaps: number; connects: number };
}

/** Returns what a page has received of its session. */
export function received(page: Page): Promise<LiveHandle["received"] | undefined> {
  return page.evaluate(() => (globalThis as unknown as { threadfold?: LiveHandle }).threadfold?.received);
}

/** Returns the hash of the state that a page draws. */
export function shownHash(page: Page): Promise<string | undefined> {
  return page.evaluate(() => (globalThis as unknown as { threadfold?: LiveHandle }).threadfold?.shownHash);
}
