// Markup, scripts, styles and links in every string that a session has: nothing of it happens.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPage, startBrowser } from "./browser.js";
import { type AnyEvent, TestServer } from "./server.js";

const ELSEWHERE = "http://127.0.0.1:9/evil";

/** Two hundred texts that would do something where markup, styles or addresses are interpreted. */
function payloads(): string[] {
  const act = "document.title='PWNED';window.PWNED=1;alert(1)";
  const tags = ["img", "svg", "iframe", "object", "embed", "video", "audio", "link", "script", "base", "meta", "form", "input", "style", "math", "details", "body", "marquee", "template", "portal"];
  const wraps = [
    (tag: string) => `<${tag} src=${ELSEWHERE} href=${ELSEWHERE} onerror="${act}" onload="${act}">`,
    (tag: string) => `"><${tag} src=x onerror="${act}" ontoggle="${act}" open>`,
    (tag: string) => `\n\n<${tag}>${act}</${tag}>\n\n`,
    (tag: string) => `[x](javascript:${act}) <${tag}/onmouseover=${act}>`,
    (tag: string) => `\`\`\`${tag}\n<${tag} src=${ELSEWHERE}>\n\`\`\``,
  ];
  const plain = [
    `![x](${ELSEWHERE}.png)`,
    `![x][r]\n\n[r]: ${ELSEWHERE}.png`,
    `<javascript:${act}>`,
    `[x](data:text/html,<script>${act}</script>)`,
    `[x](vbscript:msgbox(1))`,
    `[x](  java\nscript:${act})`,
    `{{constructor.constructor('${act}')()}}`,
    "${alert(1)}",
    "__proto__",
    "constructor",
    "toString",
    "../../../../etc/passwd",
    "%2e%2e%2f%2e%2e%2f",
    "\u202egnp.exe",
    "\u0000\u0001\u001b[31mred\u001b]8;;http://127.0.0.1:9/x\u0007link\u001b]8;;\u0007",
    "\u001b]0;title\u0007\u001b[2J\u001b[H",
    "a".repeat(5_000),
    "wide ".repeat(2_000),
    "\ud83d\udca9".repeat(300),
    "Z\u0351\u036b\u0343".repeat(200),
    "<!--",
    "<![CDATA[<script>alert(1)</script>]]>",
    "</script><script>alert(1)</script>",
    "</style><style>*{display:none!important}</style>",
    "<style>@import url(http://127.0.0.1:9/x.css);</style>",
    "<div style=\"position:fixed;inset:0;background:url(http://127.0.0.1:9/b)\">cover</div>",
    "<a href=http://127.0.0.1:9 ping=http://127.0.0.1:9>x</a>",
    "<http://127.0.0.1:9/autolink>",
    "https://127.0.0.1:9/bare",
    "<p id=root class=page-foot>x</p>",
    "@@ -1,1 +1,1 @@\n-<script>alert(1)</script>\n+<img src=x onerror=alert(1)>",
    "--- a\n+++ b\n@@ -99999999999999,9 +0,0 @@\n",
    "\u2028\u2029",
    "#/s/other?at=1",
    "?block=<script>",
    "'; DROP TABLE sessions; --",
    "{\"type\":\"block:remove\"}",
    "NaN",
    "1e999",
    "-0",
  ];
  const many = tags.flatMap((tag) => wraps.map((wrap) => wrap(tag)));
  const entities = tags.flatMap((tag) => [`&lt;${tag} onerror=${act}&gt;`, `&#60;${tag} src=${ELSEWHERE}&#62;`, `<${tag.toUpperCase()}\u0000 SRC='${ELSEWHERE}'>`]);
  return [...many, ...plain, ...entities].slice(0, 200);
}

/** A session with one text in every field that can hold it. */
function hostileEvents(text: string, at: number): AnyEvent[] {
  const id = (name: string) => `${name}-${at}-${text}`;
  const context = { conversationId: "main", timestamp: text };
  const block = (fields: object): AnyEvent => ({ type: "block:upsert", payload: { block: { status: "complete", conversationId: "main", timestamp: text, messageId: id("m"), parent: id("p"), metadata: { [text]: text, diff: text, toolName: text }, ...fields } }, context });
  return [
    block({ id: id("u"), type: "user_message", content: text }),
    block({ id: id("w"), type: "user_message", content: [{ type: "text", text }, { type: "image", mediaType: text, url: ELSEWHERE, data: text }, { type: "image", mediaType: "image/svg+xml", data: Buffer.from(`<svg onload="alert(1)">`).toString("base64") }, { type: "file", name: text, url: ELSEWHERE }] }),
    block({ id: id("a"), type: "assistant_text", content: text, model: text }),
    block({ id: id("g"), type: "assistant_text", status: "pending", content: text.slice(0, 40), model: text }),
    block({ id: id("t"), type: "thinking", content: text, signature: text }),
    block({ id: id("c"), type: "tool_use", toolName: text, toolUseId: id("c"), displayName: text, description: text, input: { [text]: text, file_path: text, command: text } }),
    block({ id: id("r"), type: "tool_result", toolUseId: id("c"), output: [{ type: "text", text }, { type: "image", source: { media_type: "image/png", data: text } }, { type: text }], isError: true }),
    block({ id: id("b"), type: "tool_use", toolName: "Bash", toolUseId: id("b"), input: { command: text, description: text } }),
    block({ id: id("br"), type: "tool_result", toolUseId: id("b"), output: text }),
    block({ id: id("e"), type: "tool_use", toolName: "Edit", toolUseId: id("e"), input: { file_path: text, old_string: text, new_string: `${text}!` } }),
    block({ id: id("er"), type: "tool_result", toolUseId: id("e"), output: text, metadata: { diff: text } }),
    block({ id: id("o"), type: "tool_result", toolUseId: id("orphan"), output: { [text]: [text] } }),
    block({ id: id("s"), type: "subagent", toolUseId: id("s"), agentId: id("agent"), name: text, description: text, input: text, output: text }),
    { type: "subagent:spawned", payload: { toolUseId: id("s"), agentId: id("agent"), prompt: text, subagentType: text, description: text }, context },
    { type: "block:upsert", payload: { block: { id: id("i"), type: "assistant_text", status: "complete", content: text, conversationId: id("agent") } }, context: { conversationId: id("agent") } },
    { type: "permission:requested", payload: { requestId: id("q"), toolUseId: id("b"), question: text, options: [text] }, context },
    { type: "permission:requested", payload: { requestId: id("q2"), question: { question: text, [text]: text } }, context },
    block({ id: id("y"), type: "system", subtype: text, message: text }),
    block({ id: id("k"), type: "system", subtype: "compaction", message: text }),
    block({ id: id("z"), type: "system", subtype: "interrupted", message: text }),
    block({ id: id("l"), type: "skill_load", skillName: text, content: text }),
    block({ id: id("x"), type: "error", message: text, code: text }),
    block({ id: id("n"), type: "unknown", record: { [text]: { [text]: text } } }),
    { type: "metadata:update", payload: { metadata: { title: text, model: text, cwd: text, usage: { messageId: id("m"), tokens: { input_tokens: 1, output_tokens: 1 } } } }, context },
    { type: "query:started", payload: { message: text }, context },
  ];
}

const server = new TestServer();
let browser: Browser;

beforeAll(async () => {
  await server.start();
  browser = await startBrowser();
});

afterAll(async () => {
  await browser.close();
  await server.remove();
});

test("two hundred payloads in every field do nothing", async () => {
  const texts = payloads();
  expect(texts.length).toBe(200);
  const session = "hostile";
  for (let at = 0; at < texts.length; at += 20) {
    await server.push(session, texts.slice(at, at + 20).flatMap((text, index) => hostileEvents(text, at + index)));
  }
  // A session for each payload that can be an id or a title, in the list.
  for (const [at, text] of texts.entries()) {
    const id = `s${at}`;
    await server.push(id, [{ type: "metadata:update", payload: { metadata: { title: text, model: text, cwd: text } } }]);
  }
  const watched = await openPage(browser, server, "", { width: 1280 });
  const { page } = watched;
  await page.getByRole("list", { name: "Sessions" }).waitFor();
  await scrollThrough(page, ".sessions .scroller");

  await page.evaluate((id) => (location.hash = `#/s/${id}`), session);
  await page.getByRole("feed").waitFor();
  await page.getByRole("button", { name: "Notices" }).click();
  await scrollThrough(page, ".conversation .scroller", async () => {
    // Everything that can be opened is opened.
    await page.evaluate(() => document.querySelectorAll<HTMLElement>('.conversation [aria-expanded="false"]').forEach((it) => it.click()));
    await page.waitForTimeout(20);
  });
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("<");
  await page.getByRole("combobox").fill("script");
  await page.waitForTimeout(200);
  await page.keyboard.press("Escape");
  await page.evaluate((id) => (location.hash = `#/s/${id}?view=timeline`), session);
  await page.waitForTimeout(500);
  for (const text of texts.slice(0, 40)) {
    await page.evaluate((it) => (location.hash = `#/s/hostile/a/${encodeURIComponent(it)}?block=${encodeURIComponent(it)}`), text);
    await page.evaluate((it) => (location.hash = it), text);
  }
  await page.waitForTimeout(300);

  expect(watched.problems).toEqual([]);
  expect(await page.evaluate(() => "PWNED" in globalThis)).toBe(false);
  expect(await page.title()).not.toBe("PWNED");
  const foreign = await page.evaluate(() => document.querySelectorAll("script:not([src]), style, iframe, object, embed, base, form[action], [onerror], [onload], [style*=url]").length);
  expect(foreign).toBe(0);
});

/** Scrolls through a virtual list, and checks at each place that nothing is wider than the page. */
async function scrollThrough(page: import("playwright-core").Page, selector: string, act: () => Promise<void> = async () => {}): Promise<void> {
  const scroller = page.locator(selector);
  await scroller.evaluate((it) => (it.scrollTop = 0));
  for (let place = 0; ; place += 1) {
    await page.waitForTimeout(15);
    await act();
    const { wide, isEnd } = await scroller.evaluate((it) => {
      const isWide = document.documentElement.scrollWidth > innerWidth || it.scrollWidth > it.clientWidth + 1;
      const edge = it.getBoundingClientRect().right;
      const isOver = (element: Element) => element.getBoundingClientRect().right > edge + 1;
      const wide = isWide ? [...it.querySelectorAll("*")].filter(isOver).map((element) => `${element.tagName} ${element.className}`) : [];
      const before = it.scrollTop;
      it.scrollTop += it.clientHeight * 3;
      return { wide: wide.slice(0, 8), isEnd: it.scrollTop === before };
    });
    expect(wide, `${selector} at ${place}`).toEqual([]);
    if (isEnd || place > 400) return;
  }
}
