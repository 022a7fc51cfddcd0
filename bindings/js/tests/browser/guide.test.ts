// The project of the guide, built exactly as it is written, and opened.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { delta, text } from "../events.js";
import { TestServer } from "../server.js";
import { PageServer, startBrowser } from "./browser.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const repository = fileURLToPath(new URL("../../../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "threadfold-guide-"));
const server = new TestServer();
const pages = new PageServer();

beforeAll(async () => {
  await server.start();
  await pages.start();
});
afterAll(async () => {
  pages.stop();
  await server.remove();
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the files of the guide: each is a name in front of a block of code. */
function guideFiles(): [string, string][] {
  const guide = readFileSync(join(repository, "docs/guide/react.md"), "utf8");
  const found = [...guide.matchAll(/^`([\w./]+)`[^\n]*:[^\n]*\n\n```\w+\n(.*?)```/gms)];
  return found.map((it) => [it[1]!, it[2]!]);
}

test("the example folder has the project of the guide", () => {
  expect(guideFiles().map(([name]) => name)).toEqual(["package.json", "index.html", "vite.config.js", "src/main.jsx"]);
  for (const [name, code] of guideFiles()) {
    expect(readFileSync(join(repository, "examples/react-live", name), "utf8"), name).toBe(code);
  }
});

test("it builds, and shows a session live", async () => {
  for (const [name, code] of guideFiles()) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
  }
  // What `npm install` would put there, without the network.
  mkdirSync(join(folder, "node_modules/threadfold"), { recursive: true });
  for (const name of ["react", "react-dom", "scheduler"]) {
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  }
  for (const name of ["package.json", "dist"]) {
    cpSync(join(root, name), join(folder, "node_modules/threadfold", name), { recursive: true });
  }
  execFileSync(join(root, "node_modules/.bin/vite"), ["build", "--logLevel", "error"], { cwd: folder, env: { ...process.env, NODE_ENV: "production" } });
  expect(existsSync(join(folder, "dist/index.html"))).toBe(true);
  pages.files.set("/", readFileSync(join(folder, "dist/index.html")));
  for (const name of readdirSync(join(folder, "dist/assets"))) {
    pages.files.set(`/assets/${name}`, readFileSync(join(folder, "dist/assets", name)));
  }
  pages.api = server.url;
  await server.push("guide", [text("a", "Hello")]);
  const browser = await startBrowser();
  const page = await browser.newPage();
  const errors: unknown[] = [];
  page.on("pageerror", (error) => errors.push(error));
  await page.goto(`${pages.url}#token=${server.token}`);
  await page.waitForFunction(() => document.querySelector("pre")?.textContent === "Hello");
  await server.push("guide", [delta("a", ", world"), text("b", "more")]);
  await page.waitForFunction(() => [...document.querySelectorAll("pre")].map((it) => it.textContent).join("|") === "Hello, world|more");
  expect(await page.textContent("p")).toBe("live, 0 subagents");
  expect(errors).toEqual([]);
  await browser.close();
}, 120_000);

test("the example for Node folds a transcript and a live stream", () => {
  const data = join(repository, "crates/threadfold-convert/tests/data/claude/subagent");
  const example = join(repository, "examples/node-fold/fold.js");
  mkdirSync(join(folder, "fold/node_modules"), { recursive: true });
  symlinkSync(root, join(folder, "fold/node_modules/threadfold"));
  cpSync(example, join(folder, "fold/fold.js"));
  writeFileSync(join(folder, "fold/package.json"), '{"type":"module"}');
  const stream = readFileSync(join(data, "stream.jsonl"));
  const live = execFileSync(process.execPath, ["fold.js"], { cwd: join(folder, "fold"), input: stream, encoding: "utf8" });
  expect(live).toMatch(/^\d+ blocks, 1 subagents, [0-9a-f]{16}$/m);
  expect(live).toContain("assistant_text");
});
