// A program of the older system, as it stands, and its flat events. Its hook runs in a browser.

import {
  createInitialConversationState,
  findSubagent,
  parseTranscript,
  reduceSessionEvent,
} from "threadfold";
import { expect, test } from "vitest";

const sessionEvents = [
  { type: "block:upsert", conversationId: "main", block: { id: "b1", type: "assistant_text", status: "pending", content: "" } },
  { type: "block:delta", conversationId: "main", blockId: "b1", delta: "Hello" },
  { type: "subagent:spawned", toolUseId: "t1", prompt: "Look", subagentType: "Explore", description: "d" },
  { type: "block:upsert", conversationId: "t1", block: { id: "s1", type: "thinking", status: "pending", content: "Hm" } },
  { type: "subagent:completed", toolUseId: "t1", agentId: "A", status: "completed", output: "done", durationMs: 5 },
  { type: "subagent:spawned", toolUseId: "t2", prompt: "Deeper", subagentType: "Explore", context: { conversationId: "t1" } },
  { type: "session:idle", conversationId: "main" },
] as const;

test("the first program", () => {
  let state = createInitialConversationState();
  for (const event of sessionEvents) { state = reduceSessionEvent(state, event); }
  expect(state.blocks[0]).toMatchObject({ content: "Hello", interrupted: true });
  expect(state.subagents).toMatchObject([
    { toolUseId: "t1", agentId: "A", status: "success", output: "done", durationMs: 5, blocks: [{ id: "s1" }, { id: "t2", type: "subagent" }] },
    { toolUseId: "t2" },
  ]);
  expect(findSubagent(state, "A")).toBe(state.subagents[0]);
});

test("agents go by the names of the older system, and transcripts by its combined form", () => {
  const line = (uuid: string, content: string, more = {}) =>
    JSON.stringify({ type: "user", uuid, sessionId: "s1", message: { role: "user", content }, ...more });
  const lines = `${line("u1", "Hello")}\n`;
  expect(parseTranscript("claude-sdk", lines).blocks).toMatchObject([{ type: "user_message", content: "Hello" }]);
  const combined = {
    main: lines,
    subagents: [{ id: "A1", transcript: `${line("u2", "Inside", { isSidechain: true, agentId: "A1" })}\n` }],
  };
  for (const raw of [combined, JSON.stringify(combined)]) {
    const state = parseTranscript("claude-sdk", raw);
    expect(state.blocks).toMatchObject([{ content: "Hello" }]);
    expect(findSubagent(state, "A1")?.blocks).toMatchObject([{ content: "Inside" }]);
  }
  const files = [
    { path: "s1.jsonl", content: lines },
    { path: "s1/subagents/agent-A1.jsonl", content: new TextEncoder().encode(combined.subagents[0]!.transcript) },
  ];
  expect(findSubagent(parseTranscript("claude", files), "agent-A1")?.blocks).toMatchObject([{ content: "Inside" }]);
  expect(() => parseTranscript("nobody", lines)).toThrow(/nobody/);
});
