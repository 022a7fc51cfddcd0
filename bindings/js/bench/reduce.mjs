// `cargo xtask bench js`: what one more event costs, side by side with plain JavaScript.

import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInitialConversationState, parseTranscript, reduceSessionEvent, reduceSessionEvents } from "threadfold";
import { MutableReducer, spreadReduce } from "./baselines.mjs";

const SIZES = [100, 1_000, 10_000, 100_000];
const ROUNDS = 5;
const block = (id) => ({
  type: "block:upsert",
  payload: { block: { id, type: "assistant_text", status: "pending", conversationId: "main", timestamp: "2026-01-01T00:00:00Z", content: "" } },
  context: { conversationId: "main" },
});
const delta = (id, text) => ({ type: "block:delta", payload: { blockId: id, delta: text }, context: { conversationId: "main" } });

/** A stream as agents emit it: a new block, then forty pieces of its text. */
function streamOf(count, from) {
  const events = [];
  for (let index = 0; index < count; index += 1) {
    const of = `n${from}.${index - (index % 41)}`;
    events.push(index % 41 === 0 ? block(of) : delta(of, `word ${index} of it `));
  }
  return events;
}

const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Returns the processor time so far, in seconds: others on the machine do not count. */
function processorTime() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Returns events a second, the median of rounds. */
function measure(count, run) {
  const rates = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const events = streamOf(count, round);
    globalThis.gc?.();
    const start = processorTime();
    run(events);
    const seconds = processorTime() - start;
    if (round > 0) rates.push(count / seconds);
  }
  return median(rates);
}

let sink = 0;
const look = (blocks) => (sink += blocks.length);
const filled = (size) => Array.from({ length: size }, (_, index) => block(`b${index}`));
const show = (rate) => (rate >= 1e6 ? `${(rate / 1e6).toFixed(2)}M` : `${(rate / 1e3).toFixed(1)}k`);

const results = {};
for (const size of SIZES) {
  for (const reads of [false, true]) {
    const few = size >= 100_000 ? 41 * 5 : size >= 10_000 ? 41 * 40 : 41 * 200;
    const many = reads ? few : 41 * 400;
    const base = reduceSessionEvents(createInitialConversationState(), filled(size));
    look(base.blocks);
    const plain = { blocks: filled(size).map((it) => it.payload.block), subagents: [] };
    const mutable = new MutableReducer();
    filled(size).forEach((it) => mutable.apply(it));
    results[`${size} ${reads}`] = {
      pure: measure(many, (events) => {
        let state = base;
        for (const event of events) {
          state = reduceSessionEvent(state, event);
          if (reads) look(state.blocks);
        }
      }),
      batched: measure(many, (events) => {
        let state = base;
        for (let at = 0; at < events.length; at += 100) {
          state = reduceSessionEvents(state, events.slice(at, at + 100));
          if (reads) look(state.blocks);
        }
      }),
      spread: measure(few, (events) => {
        let state = plain;
        for (const event of events) {
          state = spreadReduce(state, event);
          if (reads) look(state.blocks);
        }
      }),
      mutable: measure(many, (events) => {
        for (const event of events) {
          mutable.apply(event);
          if (reads) look(mutable.blocks);
        }
      }),
    };
  }
}

console.log(`events a second of processor time, medians of ${ROUNDS}; blocks exist before; a new block for every 41 events`);
console.log("| blocks | read | (a) pure | (b) batched by 100 | (c) spread copies | (d) mutable | (a):(c) |");
console.log("|---|---|---|---|---|---|---|");
for (const size of SIZES) {
  for (const reads of [false, true]) {
    const it = results[`${size} ${reads}`];
    const cells = [size, reads ? "after every event" : "never", show(it.pure), show(it.batched), show(it.spread), show(it.mutable), `${(it.pure / it.spread).toFixed(2)}×`];
    console.log(`| ${cells.join(" | ")} |`);
  }
}

const checks = [];
const check = (what, found, wanted, isMet) => checks.push(`${isMet ? "met " : "MISS"} ${what}: ${found} (bar ${wanted})`);
const flat = results["100000 false"].pure / results["100 false"].pure;
check("(a) without reading, 100,000 blocks against 100", `${flat.toFixed(2)}×`, "≥ 0.5×", flat >= 0.5);
const small = results["100 true"].pure / results["100 true"].spread;
check("(a) against (c) with reading, 100 blocks", `${small.toFixed(2)}×`, "≥ 0.5×", small >= 0.5);
const large = results["10000 true"].pure / results["10000 true"].spread;
check("(a) against (c) with reading, 10,000 blocks", `${large.toFixed(2)}×`, "≥ 10×", large >= 10);

// Text in, one call: what a transport hands on.
const lines = streamOf(41 * 2500, 0).map((it) => JSON.stringify(it)).join("\n");
const textRate = median(
  Array.from({ length: ROUNDS }, () => {
    const start = processorTime();
    reduceSessionEvents(createInitialConversationState(), lines);
    return (41 * 2500) / (processorTime() - start);
  }),
);
const native = process.env.THREADFOLD_NATIVE_REDUCE;
if (native !== undefined) {
  const file = join(mkdtempSync(join(tmpdir(), "threadfold-bench-")), "events.jsonl");
  writeFileSync(file, lines);
  const nativeRate = Number(execFileSync(native, [file], { encoding: "utf8" }));
  const slower = nativeRate / textRate;
  console.log(`text of events, one call: ${show(textRate)} a second; native ${show(nativeRate)}`);
  check("batched against native, the same text", `${slower.toFixed(2)}× slower`, "≤ 3×", slower <= 3);
}

// A transcript of about 20 MB.
const transcript = [];
for (let turn = 0; turn < 8_000; turn += 1) {
  const about = { sessionId: "s1", timestamp: "2026-01-01T00:00:00Z", cwd: "/work", version: "2.1.0", isSidechain: false, userType: "external" };
  const text = `What about ${turn}? `.repeat(20);
  transcript.push({ ...about, type: "user", uuid: `u${turn}`, parentUuid: turn === 0 ? null : `r${turn - 1}`, message: { role: "user", content: text } });
  transcript.push({ ...about, type: "assistant", uuid: `a${turn}`, parentUuid: `u${turn}`, message: { id: `m${turn}`, role: "assistant", model: "m", content: [{ type: "text", text }], usage: { input_tokens: 1, output_tokens: 2 } } });
  transcript.push({ ...about, type: "assistant", uuid: `t${turn}`, parentUuid: `a${turn}`, message: { id: `m${turn}`, role: "assistant", model: "m", content: [{ type: "tool_use", id: `c${turn}`, name: "Read", input: { file: `/project/${turn}` } }], usage: { input_tokens: 1, output_tokens: 2 } } });
  transcript.push({ ...about, type: "user", uuid: `r${turn}`, parentUuid: `t${turn}`, message: { role: "user", content: [{ type: "tool_result", tool_use_id: `c${turn}`, content: text }] } });
}
const raw = transcript.map((it) => JSON.stringify(it)).join("\n");
const megabytes = Buffer.byteLength(raw) / 1e6;
function seconds(run) {
  const times = Array.from({ length: ROUNDS }, () => {
    globalThis.gc?.();
    const start = processorTime();
    run();
    return processorTime() - start;
  });
  return median(times);
}
const ours = seconds(() => parseTranscript("claude", raw));
const oursRead = seconds(() => look(parseTranscript("claude", raw).blocks));
const theirs = seconds(() => {
  const reducer = new MutableReducer();
  for (const line of raw.split("\n")) {
    const record = JSON.parse(line);
    const { content } = record.message;
    const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
    parts.forEach((part, index) => reducer.apply({ type: "block:upsert", payload: { block: { ...part, id: `${record.uuid}:${index}`, timestamp: record.timestamp } } }));
  }
  look(reducer.blocks);
});
console.log(`transcript of ${megabytes.toFixed(1)} MB: ${(megabytes / ours).toFixed(0)} MB/s, with all blocks read ${(megabytes / oursRead).toFixed(0)} MB/s; JSON.parse and (d) ${(megabytes / theirs).toFixed(0)} MB/s`);
check("loading a transcript against JSON.parse and (d)", `${(theirs / ours).toFixed(2)}×`, "≥ 0.5×", theirs / ours >= 0.5);

console.log(checks.join("\n"));
if (sink === 0) throw new Error("nothing was read");
