// What the page computes by itself, without a browser.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInitialConversationState, init, reduceSessionEvents } from "threadfold/slim";
import { beforeAll, describe, expect, test } from "vitest";
import { formatRoute, parseRoute, sessionRoute } from "../src/lib/route.js";
import { editsOf } from "../src/model/edit.js";
import { pictureOf } from "../src/model/output.js";
import { buildRows, keepRows, type Row } from "../src/model/rows.js";
import { pathTo } from "../src/model/subagents.js";
import { splitPieces } from "../src/parts/markdown.js";
import { exampleSession } from "./events.js";

beforeAll(async () => {
  await init(readFileSync(createRequire(import.meta.url).resolve("threadfold/threadfold-core.wasm")));
});

const options = { open: new Set<string>(), showsNoise: false, modelOnly: false, details: undefined };

function example() {
  return reduceSessionEvents(createInitialConversationState(), exampleSession() as never);
}

describe("routes", () => {
  test.each([
    sessionRoute("a b/c?d#e"),
    sessionRoute("s", { conversation: "x/y", at: 12, block: "b&=1", view: "timeline" }),
    { page: "sessions" } as const,
  ])("%o is the same after a round trip", (route) => {
    expect(parseRoute(formatRoute(route))).toEqual(route);
  });

  test.each(["", "#", "#/x", "#/s/", "#/s/%", "#/s/a?at=-1", "#/s/a?at=1e9", "#/s/a/b/c"])("%s leads somewhere", (hash) => {
    const route = parseRoute(hash);
    if (route.page === "session") expect(route.at).toBeUndefined();
  });
});

describe("rows", () => {
  test("a call and its result are one row, hooks are one, and turns are summed up", () => {
    const kinds = buildRows(example(), undefined, options).map((row) => row.kind);
    expect(kinds.filter((it) => it === "tool").length).toBe(8);
    expect(kinds.filter((it) => it === "noise").length).toBe(1);
    expect(kinds.filter((it) => it === "turn").length).toBe(2);
    expect(kinds.filter((it) => it === "boundary").length).toBe(1);
  });

  test("an open subagent is in place, with those inside of it", () => {
    const open = new Set(["main/a1", "agent1/a3"]);
    const rows = buildRows(example(), undefined, { ...options, open });
    expect(Math.max(...rows.map((row) => row.depth))).toBe(2);
    expect(new Set(rows.map((row) => row.key)).size).toBe(rows.length);
  });

  test("what the model saw has nothing from before the compaction", () => {
    const rows = buildRows(example(), undefined, { ...options, modelOnly: true });
    expect(rows.some((row) => row.kind === "block" && row.block.inactive === true)).toBe(false);
    expect(rows.some((row) => row.kind === "tool" && row.block.id === "t1")).toBe(false);
  });

  test("a row that did not change is the same object in the next state", () => {
    const state = example();
    const before = buildRows(state, undefined, options);
    const kept = keepRows(new Map<string, Row>(), before);
    const delta = { type: "block:upsert", payload: { block: { id: "new", type: "assistant_text", status: "pending", content: "x", conversationId: "main" } } };
    const after = buildRows(reduceSessionEvents(state, [delta as never]), undefined, options);
    keepRows(kept, after);
    const isSame = (key: string) => before.find((row) => row.key === key) === after.find((row) => row.key === key);
    expect(isSame("main/t1")).toBe(true);
    expect(after.at(-1)?.key).toBe("main/new");
  });

  test("the way to a subagent inside of another leads through its caller", () => {
    expect(pathTo(example(), "agent3").map((it) => it.agentId)).toEqual(["agent1", "agent3"]);
    expect(pathTo(example(), "nobody")).toEqual([]);
  });
});

test("an edit is what the agent reports, and else what the call says", () => {
  const state = example();
  const find = (id: string) => state.blocks.find((it) => it.id === id) as never;
  expect(editsOf(find("t4"), find("result:t4"))).toMatchObject([{ path: "/home/dev/orders/src/retry.rs", added: 1, removed: 1 }]);
  expect(editsOf(find("t8"), find("result:t8"))).toMatchObject([{ added: 3, removed: 0 }]);
});

test("only pictures that run nothing are shown", () => {
  expect(pictureOf("image/png", "aGk=")?.source).toBe("data:image/png;base64,aGk=");
  expect(pictureOf("image/svg+xml", "aGk=")).toBeUndefined();
  expect(pictureOf("image/png", '"><script>')).toBeUndefined();
  expect(pictureOf("text/html", "aGk=")).toBeUndefined();
});

test("a long text is cut between paragraphs, and never inside of code", () => {
  const paragraph = `${"word ".repeat(120)}\n\n`;
  const code = `\`\`\`js\n${"x;\n\n".repeat(600)}\`\`\`\n\n`;
  const text = paragraph.repeat(5) + code + paragraph;
  const pieces = splitPieces(text);
  expect(pieces.join("")).toBe(text);
  expect(pieces.length).toBeGreaterThan(2);
  for (const piece of pieces) expect((piece.match(/```/g) ?? []).length % 2).toBe(0);
});
