// The package as it is published: packed, installed elsewhere, and bundled.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build as esbuild } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "threadfold-pack-"));
const bin = (name: string) => join(root, "node_modules/.bin", name);
let tarball = "";

const run = (file: string, args: string[], cwd: string, env = {}) =>
  execFileSync(file, args, { cwd, encoding: "utf8", env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });

beforeAll(() => {
  const [packed] = JSON.parse(run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], root)) as [{ filename: string }];
  tarball = join(folder, packed.filename);
  writeFileSync(join(folder, "package.json"), '{"name":"user","private":true,"type":"module"}');
  run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--omit=optional", tarball], folder);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PROGRAM = `
import { createInitialConversationState, reduceSessionEvent, stateHash } from "threadfold";
let state = createInitialConversationState();
state = reduceSessionEvent(state, { type: "block:upsert", conversationId: "main", block: { id: "a", type: "assistant_text", status: "pending", content: "Hi" } });
console.log(state.blocks[0].content, stateHash(state).length);
`;

test("a plain program for Node uses it with nothing else installed", () => {
  expect(readdirSync(join(folder, "node_modules")).filter((it) => !it.startsWith("."))).toEqual(["threadfold"]);
  writeFileSync(join(folder, "plain.js"), PROGRAM);
  expect(run(process.execPath, ["--disallow-code-generation-from-strings", "plain.js"], folder)).toBe("Hi 64\n");
});

test("the slim entry takes bytes, a URL or nothing with an error that says what to do", () => {
  writeFileSync(
    join(folder, "slim.js"),
    `import { readFileSync } from "node:fs";
import { init, createInitialConversationState, isConversationEvent } from "threadfold/slim";
try { isConversationEvent({ type: "x" }); } catch (error) { console.log(error.message.includes("await init")); }
await init(readFileSync(new URL(import.meta.resolve("threadfold/threadfold.wasm"))));
console.log(createInitialConversationState().blocks.length);`,
  );
  expect(run(process.execPath, ["slim.js"], folder)).toBe("true\n0\n");
});

test("the comparison has a module of its own, beside any other", () => {
  writeFileSync(
    join(folder, "verify.js"),
    `import { createInitialConversationState, parseTranscript, stateHash } from "threadfold";
import { verifyTranscript } from "threadfold/verify";
const line = JSON.stringify({ type: "user", uuid: "u1", sessionId: "s1", timestamp: "2026-01-01T00:00:00Z", message: { role: "user", content: "Hi" } });
console.log(stateHash(createInitialConversationState()).length, parseTranscript("claude", line).blocks.length);
const report = verifyTranscript("claude", "", [{ path: "s1.jsonl", content: line }]);
console.log(typeof report.verdict, Array.isArray(report) ? "list" : typeof report);
try { verifyTranscript("nobody", "", []); } catch (error) { console.log(error.message.includes("unknown")); }`,
  );
  expect(run(process.execPath, ["verify.js"], folder)).toBe("64 1\nstring object\ntrue\n");
});

test("esbuild bundles it without configuration, also as a classic script", async () => {
  writeFileSync(join(folder, "entry.js"), PROGRAM);
  for (const format of ["iife", "esm"] as const) {
    const outfile = join(folder, `esbuild-${format}.mjs`);
    await esbuild({ entryPoints: [join(folder, "entry.js")], bundle: true, outfile, format, minify: true });
    expect(run(process.execPath, [outfile], folder)).toBe("Hi 64\n");
  }
});

test("Vite builds it without configuration", () => {
  const site = join(folder, "site");
  mkdirSync(site);
  writeFileSync(join(site, "index.html"), '<script type="module" src="/entry.js"></script>');
  writeFileSync(join(site, "entry.js"), PROGRAM);
  run(bin("vite"), ["build", "--logLevel", "error"], site);
  const [built] = readdirSync(join(site, "dist/assets")).filter((it) => it.endsWith(".js"));
  const text = readFileSync(join(site, "dist/assets", built!), "utf8");
  expect(readdirSync(join(site, "dist/assets"))).toEqual([built]);
  writeFileSync(join(site, "built.mjs"), text.replace(/^.*?document\.createElement.*?$/m, (it) => it));
  expect(text).not.toContain("eval(");
  expect(run(process.execPath, ["--import", `data:text/javascript,globalThis.document={createElement:()=>({relList:{supports:()=>true}})}`, "built.mjs"], site)).toBe("Hi 64\n");
});

test("webpack builds it without configuration", () => {
  const site = join(folder, "pack");
  mkdirSync(join(site, "src"), { recursive: true });
  writeFileSync(join(site, "src/index.js"), PROGRAM);
  writeFileSync(join(site, "package.json"), '{"type":"module"}');
  run(bin("webpack"), ["--mode", "production", "--entry", "./src/index.js", "-o", "./dist"], site);
  expect(run(process.execPath, [join(site, "dist/main.js")], site)).toBe("Hi 64\n");
});

test("publint has nothing to say", () => {
  expect(run(bin("publint"), ["--strict", tarball], root)).toContain("All good");
});

test("the types are right for every way to resolve them", () => {
  // It fails by its exit code.
  const said = run(bin("attw"), [tarball, "--profile", "esm-only", "--format", "ascii", "--exclude-entrypoints", "./threadfold.wasm", "./threadfold-core.wasm", "./threadfold-verify.wasm"], root, { NO_COLOR: "1" });
  expect(said).toContain("node16 (from ESM): 🟢 (ESM)");
}, 120_000);

test("it is as small as promised", async () => {
  const wasm = join(root, "../wasm/built");
  const size = (path: string) => gzipSync(readFileSync(path), { level: 9 }).length;
  const bundled = await esbuild({
    stdin: { contents: 'export * from "threadfold/slim"; export * from "threadfold/slim/react";', resolveDir: folder },
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    external: ["react"],
  });
  const sizes = {
    core: size(join(wasm, "threadfold-core.wasm")),
    full: size(join(wasm, "threadfold.wasm")),
    verify: size(join(wasm, "threadfold-verify.wasm")),
    javascript: gzipSync(bundled.outputFiles[0]!.contents, { level: 9 }).length,
  };
  console.log(`gzip: core ${sizes.core}, with converters ${sizes.full}, that compares ${sizes.verify}, JavaScript ${sizes.javascript} bytes`);
  expect(sizes.javascript).toBeLessThan(12 * 1024);
  expect(sizes.core).toBeLessThan(CORE_LIMIT);
  expect(sizes.full).toBeLessThan(FULL_LIMIT);
  expect(sizes.verify).toBeLessThan(VERIFY_LIMIT);
  expect(statSync(tarball).size).toBeGreaterThan(0);
});

const CORE_LIMIT = 220 * 1024;
// More than twice what was wanted, 350 KB: `docs/benchmarks.md` has what is in it. It must not grow.
const FULL_LIMIT = 795 * 1024;
const VERIFY_LIMIT = 930 * 1024;
