// Events of sessions that exercise everything the page draws.

import type { AnyEvent } from "./server.js";

const START = Date.parse("2026-11-17T09:00:00Z");
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mP8z8BQz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC";

export class Story {
  readonly events: AnyEvent[] = [];
  #time = START;
  #count = 0;

  /** Lets time pass. */
  pass(seconds: number): this {
    this.#time += seconds * 1_000;
    return this;
  }

  get time(): string {
    return new Date(this.#time).toISOString();
  }

  add(type: string, payload: object, conversationId = "main"): this {
    this.events.push({ type, payload, context: { conversationId, timestamp: this.time } });
    return this;
  }

  block(fields: Record<string, unknown>, conversationId = "main"): this {
    this.#count += 1;
    const block = { id: `b${this.#count}`, status: "complete", timestamp: this.time, conversationId, ...fields };
    return this.add("block:upsert", { block }, conversationId);
  }

  prompt(content: unknown, conversationId = "main"): this {
    return this.block({ type: "user_message", content }, conversationId).pass(1);
  }

  say(content: string, message: string, conversationId = "main"): this {
    return this.block({ type: "assistant_text", content, messageId: message, model: "claude-sonnet-4-5" }, conversationId);
  }

  use(message: string, tokens: [number, number, number], conversationId = "main"): this {
    const [input, cached, output] = tokens;
    const usage = { messageId: message, tokens: { input_tokens: input, cache_read_input_tokens: cached, cache_creation_input_tokens: 0, output_tokens: output } };
    return this.add("metadata:update", { metadata: { usage } }, conversationId);
  }

  tool(id: string, toolName: string, input: unknown, output: unknown, more: { seconds?: number; isError?: boolean; metadata?: object; message?: string; conversation?: string } = {}): this {
    const { seconds = 1, isError = false, metadata, message, conversation = "main" } = more;
    this.block({ id, type: "tool_use", toolName, toolUseId: id, input, status: isError ? "error" : "complete", ...(message === undefined ? {} : { messageId: message }) }, conversation);
    this.pass(seconds);
    return this.block({ id: `result:${id}`, type: "tool_result", toolUseId: id, output, isError, ...(metadata === undefined ? {} : { metadata }) }, conversation);
  }
}

/** A session as a person would have it: edits, a failing test, an image, subagents, a compaction. */
export function exampleSession(): AnyEvent[] {
  const story = new Story();
  story.add("metadata:update", { metadata: { title: "Fix the flaky retry test", model: "claude-sonnet-4-5", cwd: "/home/dev/orders" } });
  story.prompt("The test `retries_twice` in **orders** fails now and then. Find out why, and fix it.");
  story.block({ type: "thinking", content: "The retry policy probably reads the clock twice. I look at the test first.", messageId: "m1" });
  story.say("I look at the failing test and at the policy.", "m1").use("m1", [1_840, 21_000, 310]);
  story.tool("t1", "Bash", { command: "cargo test -p orders retries_twice", description: "Run the failing test" }, "\u001b[1m\u001b[32m   Compiling\u001b[0m orders v0.3.1\n\u001b[1m\u001b[32m    Finished\u001b[0m test profile in 4.12s\n\nrunning 1 test\ntest retries_twice ... \u001b[31mFAILED\u001b[0m\n\nfailures:\n\n---- retries_twice stdout ----\nassertion `left == right` failed\n  left: 3\n right: 2\n\ntest result: \u001b[31mFAILED\u001b[0m. 0 passed; 1 failed", { seconds: 6, isError: true, message: "m1" });
  story.tool("t2", "Read", { file_path: "/home/dev/orders/src/retry.rs" }, "1\tpub fn next_delay(attempt: u32, now: Instant) -> Option<Duration> {\n2\t    if attempt > MAX {\n3\t        return None;\n4\t    }\n5\t    Some(BASE * 2u32.pow(attempt))\n6\t}", { message: "m1" });
  story.tool("t3", "Grep", { pattern: "next_delay", path: "src" }, "src/retry.rs:1\nsrc/client.rs:48\nsrc/client.rs:51", { message: "m1" });
  story.say("The limit is checked with `>` instead of `>=`, so there is **one retry too many** when the clock does not advance:\n\n| attempt | expected | actual |\n|---|---|---|\n| 1 | retry | retry |\n| 2 | retry | retry |\n| 3 | stop | retry |\n\n```rust\nif attempt > MAX {\n    return None; // one too late\n}\n```\n\nI change it, and delegate a look at the other callers.", "m2").use("m2", [620, 23_900, 540]);
  story.tool("t4", "Edit", { file_path: "/home/dev/orders/src/retry.rs", old_string: "    if attempt > MAX {", new_string: "    if attempt >= MAX {" }, "The file was updated.", {
    message: "m2",
    metadata: { structured: { structuredPatch: [{ oldStart: 1, oldLines: 6, newStart: 1, newLines: 6, lines: [" pub fn next_delay(attempt: u32, now: Instant) -> Option<Duration> {", "-    if attempt > MAX {", "+    if attempt >= MAX {", "         return None;", "     }", "     Some(BASE * 2u32.pow(attempt))"] }] } },
  });
  for (const [id, description, conversation] of [["a1", "Check the callers", "agent1"], ["a2", "Check the docs", "agent2"]] as const) {
    story.block({ id, type: "subagent", toolUseId: id, agentId: conversation, name: "general-purpose", description, input: `${description} of next_delay.`, status: "running", messageId: "m2" });
    story.add("subagent:spawned", { toolUseId: id, agentId: conversation, prompt: `${description} of next_delay.`, subagentType: "general-purpose", description });
  }
  story.prompt("Check the callers of next_delay.", "agent1");
  story.say("I search for callers.", "s1", "agent1").use("s1", [4_000, 9_000, 120], "agent1");
  story.tool("c1", "Grep", { pattern: "next_delay\\(" }, "src/client.rs:48: if let Some(delay) = next_delay(attempt, now) {", { conversation: "agent1", message: "s1" });
  story.block({ id: "a3", type: "subagent", toolUseId: "a3", agentId: "agent3", name: "general-purpose", description: "Read the client", input: "Read client.rs", status: "running", messageId: "s1" }, "agent1");
  story.add("subagent:spawned", { toolUseId: "a3", agentId: "agent3", prompt: "Read client.rs", subagentType: "general-purpose", description: "Read the client" }, "agent1");
  story.prompt("Read client.rs", "agent3");
  story.tool("d1", "Read", { file_path: "/home/dev/orders/src/client.rs" }, "48\tif let Some(delay) = next_delay(attempt, now) {\n49\t    sleep(delay).await;", { conversation: "agent3", seconds: 2 });
  story.say("It counts from one, as expected.", "u1", "agent3").use("u1", [2_500, 4_000, 60], "agent3");
  story.add("subagent:completed", { toolUseId: "a3", agentId: "agent3", status: "completed", output: "It counts from one, as expected.", durationMs: 2_400 }, "agent1");
  story.say("One caller, which counts from one: the change is right.", "s2", "agent1").use("s2", [800, 13_000, 90], "agent1");
  story.add("subagent:completed", { toolUseId: "a1", agentId: "agent1", status: "completed", output: "One caller, which counts from one: the change is right.", durationMs: 5_300 });
  story.prompt("Check the docs of next_delay.", "agent2");
  story.tool("e1", "WebFetch", { url: "https://docs.example/retry" }, "The network cannot be reached", { conversation: "agent2", isError: true });
  story.add("subagent:completed", { toolUseId: "a2", agentId: "agent2", status: "error", output: "The docs cannot be reached.", durationMs: 1_500 });
  story.block({ type: "system", subtype: "hook", message: "PostToolUse:Edit: formatted src/retry.rs" });
  story.block({ type: "system", subtype: "hook", message: "PostToolUse:Edit: " });
  story.tool("t5", "Bash", { command: "cargo test -p orders", description: "Run all tests" }, "running 42 tests\n..........................................\ntest result: \u001b[32mok\u001b[0m. 42 passed; 0 failed", { seconds: 9, message: "m3" });
  story.say("Fixed: the third attempt stops now, and all **42 tests** pass.", "m3").use("m3", [1_100, 26_000, 210]);
  story.add("metadata:update", { metadata: { costUsd: 0.384 } });
  story.add("session:idle", {});
  story.pass(60).block({ id: "compact", type: "system", subtype: "compaction", message: "The context was compacted" });
  story.add("context:changed", { kind: "compaction", head: "compact" });
  story.block({ type: "system", subtype: "summary", message: "The retry limit was checked one attempt too late; it is fixed, and all tests pass." });
  story.prompt([{ type: "text", text: "What does the graph of retries look like now?" }, { type: "image", mediaType: "image/png", data: PIXEL }]);
  story.tool("t6", "Read", { file_path: "/home/dev/orders/graph.png" }, [{ type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } }], { message: "m4" });
  story.tool("t7", "mcp__metrics__query", { series: "retries", range: { from: "2026-11-16", to: "2026-11-17" } }, '{"points":[{"at":"09:00","value":2},{"at":"10:00","value":1}],"unit":"attempts"}', { message: "m4" });
  story.tool("t8", "Write", { file_path: "/home/dev/orders/CHANGELOG.md", content: "# Changelog\n\n- Retries stop after the second attempt.\n" }, "The file was written.", { message: "m4" });
  story.say("It is flat: *two attempts at most*. I noted it in the changelog.", "m4").use("m4", [2_000, 5_200, 160]);
  story.add("metadata:update", { metadata: { costUsd: 0.412 } });
  story.add("session:idle", {});
  return story.events;
}

/** A session that is at work: a running subagent, a tool without an end, a text that grows. */
export function runningSession(): AnyEvent[] {
  const story = new Story();
  story.add("metadata:update", { metadata: { title: "Move the importer to streams", model: "claude-sonnet-4-5", cwd: "/home/dev/importer" } });
  story.add("query:started", { message: "go" });
  story.prompt("Move the importer to streams, and keep the memory below 100 MB.");
  story.say("I let one helper measure while I rewrite the reader.", "m1");
  story.block({ id: "r1", type: "subagent", toolUseId: "r1", agentId: "runner", name: "general-purpose", description: "Measure the memory", input: "Measure", status: "running", messageId: "m1" });
  story.add("subagent:spawned", { toolUseId: "r1", agentId: "runner", prompt: "Measure the importer's memory.", description: "Measure the memory", background: true });
  story.prompt("Measure the importer's memory.", "runner");
  story.say("I run it over the large file.", "s1", "runner");
  story.block({ id: "x1", type: "tool_use", toolName: "Bash", toolUseId: "x1", status: "pending", input: { command: "/usr/bin/time -v ./importer big.csv", description: "Measure" } }, "runner");
  story.block({ id: "w1", type: "tool_use", toolName: "Edit", toolUseId: "w1", status: "complete", input: { file_path: "/home/dev/importer/src/read.rs", old_string: "read_to_string(path)?", new_string: "BufReader::new(File::open(path)?)" }, messageId: "m1" });
  story.block({ id: "result:w1", type: "tool_result", toolUseId: "w1", output: "The file was updated." });
  story.block({ id: "g1", type: "assistant_text", status: "pending", content: "The reader now works line by line, so its memory no longer depends on the size of", messageId: "m2" });
  return story.events;
}

/** A session that waits for a person. */
export function waitingSession(): AnyEvent[] {
  const story = new Story();
  story.add("metadata:update", { metadata: { title: "Clean up the staging database", model: "claude-sonnet-4-5", cwd: "/home/dev/ops" } });
  story.add("query:started", { message: "go" });
  story.prompt("Drop the tables that nobody uses any more.");
  story.block({ id: "p1", type: "tool_use", toolName: "Bash", toolUseId: "p1", status: "pending", input: { command: "psql staging -c 'DROP TABLE old_orders'" } });
  story.add("permission:requested", { requestId: "q1", toolUseId: "p1", question: { question: "Run `psql staging -c 'DROP TABLE old_orders'`?" }, options: ["allow", "deny"] });
  return story.events;
}
