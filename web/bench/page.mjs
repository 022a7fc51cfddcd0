// The page with long sessions, in Chromium: first paint, frames, scrubbing and memory.
//
// `node bench/page.mjs [RUNS]`, with the program in THREADFOLD_PROGRAM. Frames are the times between
// animation frames while something happens; tasks are the CPU time of the page's main thread in a
// trace of Chromium, which other processes do not change. The figures are medians of the runs.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const program = process.env.THREADFOLD_PROGRAM;
const runs = Number(process.argv[2] ?? 3);
const folder = mkdtempSync(join(tmpdir(), "threadfold-bench-"));
const tokenFile = join(folder, "token");

const child = spawn(program, ["serve", "--bind", "127.0.0.1:0", "--store", join(folder, "store.db"), "--token-file", tokenFile, "--agent-home", folder], { stdio: ["ignore", "pipe", "inherit"] });
let url = "";
for await (const line of createInterface({ input: child.stdout })) {
  if (line.startsWith("listening on ")) {
    url = line.slice("listening on ".length);
    break;
  }
}
child.stdout.resume();
const token = readFileSync(tokenFile, "utf8").trim();
const positions = new Map();

async function push(session, events) {
  const body = events.map((event) => `${JSON.stringify(event)}\n`).join("");
  const position = positions.get(session) ?? 0;
  const path = `/v1/sessions/${session}/records?stream=bench&position=${position}&format=events`;
  const answer = await fetch(new URL(path, url), { method: "POST", body, headers: { authorization: `Bearer ${token}` } });
  if (!answer.ok) throw new Error(await answer.text());
  positions.set(session, position + Buffer.byteLength(body));
}

const WORDS = "The reducer folds every event into one immutable state, on the server and in the browser alike. ";

function blockEvents(at) {
  const time = new Date(Date.parse("2026-11-01T08:00:00Z") + at * 1_500).toISOString();
  const upsert = (block) => ({ type: "block:upsert", payload: { block: { status: "complete", conversationId: "main", timestamp: time, messageId: `m${Math.floor(at / 5)}`, ...block } }, context: { conversationId: "main", timestamp: time } });
  switch (at % 5) {
    case 0:
      return upsert({ id: `b${at}`, type: at % 50 === 0 ? "user_message" : "assistant_text", content: `${at}. ${WORDS.repeat(1 + (at % 7))}` });
    case 1:
    case 3:
      return upsert({ id: `b${at}`, type: "tool_use", toolName: at % 2 === 0 ? "Read" : "Bash", toolUseId: `b${at}`, input: { command: `cargo test --package part${at}`, description: "Run tests" } });
    default:
      return upsert({ id: `result:b${at - 1}`, type: "tool_result", toolUseId: `b${at - 1}`, output: `line ${at}\n`.repeat(12) });
  }
}

async function fill(session, count) {
  await push(session, [{ type: "metadata:update", payload: { metadata: { title: `Session of ${count} blocks`, model: "bench" } } }]);
  for (let at = 0; at < count; at += 2_000) {
    await push(session, Array.from({ length: Math.min(2_000, count - at) }, (_, index) => blockEvents(at + index)));
  }
}

const median = (values) => [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)];
const quantile = (values, share) => [...values].sort((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))];

/** Returns the CPU time of each task of the page's main thread, from a trace. */
function tasksOf(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const isMain = (it) => it.name === "thread_name" && it.args.name === "CrRendererMain";
  const threads = new Set(traceEvents.filter(isMain).map((it) => `${it.pid} ${it.tid}`));
  const isTask = (it) => it.ph === "X" && /RunTask$/.test(it.name) && threads.has(`${it.pid} ${it.tid}`);
  return traceEvents.filter(isTask).map((it) => (it.tdur ?? it.dur ?? 0) / 1_000);
}

/** Records the times between frames, and the tasks of the main thread. */
async function frames(page, act) {
  const browser = page.context().browser();
  await browser.startTracing(page, { categories: ["toplevel"] });
  const times = await frameTimes(page, act);
  const tasks = tasksOf(await browser.stopTracing());
  return { frame: quantile(times, 0.99), task: Math.max(0, ...tasks.slice(1)) };
}

async function frameTimes(page, act) {
  await page.evaluate(() => {
    const times = [];
    let last;
    let isRunning = true;
    const tick = (now) => {
      if (last !== undefined) times.push(now - last);
      last = now;
      if (isRunning) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    globalThis.stopFrames = () => {
      isRunning = false;
      return times;
    };
  });
  await act();
  return page.evaluate(() => globalThis.stopFrames());
}

async function openFromList(page, title) {
  await page.goto(`${url}/#token=${token}`);
  const row = page.getByText(title, { exact: true });
  await row.waitFor();
  await page.waitForTimeout(500);
  return row.evaluate(
    (element) =>
      new Promise((resolve) => {
        const start = performance.now();
        const look = () => {
          if (document.querySelector(".row") === null) requestAnimationFrame(look);
          // After the frame in which it was drawn.
          else requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - start)));
        };
        element.closest("a").click();
        look();
      }),
  );
}

async function memory(page) {
  return page.evaluate(() => {
    globalThis.gc?.();
    return performance.memory.usedJSHeapSize / 1e6;
  });
}

async function scroll(page, seconds) {
  return frames(page, () =>
    page.evaluate(
      (length) =>
        new Promise((resolve) => {
          const scroller = document.querySelector(".conversation .scroller");
          scroller.scrollTop = 0;
          const end = performance.now() + length * 1_000;
          let direction = 1;
          const tick = () => {
            scroller.scrollTop += 160 * direction;
            if (scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 2) direction = -1;
            if (performance.now() > end) resolve();
            else requestAnimationFrame(tick);
          };
          requestAnimationFrame(tick);
        }),
      seconds,
    ),
  );
}

async function stream(page, session, block, seconds) {
  await push(session, [{ type: "block:upsert", payload: { block: { id: block, type: "assistant_text", status: "pending", content: "", conversationId: "main" } } }]);
  await page.keyboard.press("End");
  return frames(page, async () => {
    const start = Date.now();
    for (let count = 0; count < seconds * 50; count += 1) {
      await push(session, [{ type: "block:delta", payload: { blockId: block, delta: `${count} words of a model ` } }]);
      const wait = start + count * 20 - Date.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    }
  });
}

async function scrub(page, session, head, steps) {
  await page.evaluate((it) => (location.hash = it), `#/s/${session}?at=${head}`);
  await page.getByRole("slider", { name: "Record" }).waitFor({ timeout: 120_000 });
  await page.waitForTimeout(300);
  let longest = 0;
  const measured = await frames(page, async () => {
    longest = await page.evaluate(
      async ([id, last, count]) => {
        let most = 0;
        for (let step = 0; step < count; step += 1) {
          const start = performance.now();
          history.replaceState(null, "", `#/s/${id}?at=${Math.floor(Math.random() * last)}`);
          dispatchEvent(new HashChangeEvent("hashchange"));
          await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
          most = Math.max(most, performance.now() - start);
        }
        return most;
      },
      [session, head, steps],
    );
  });
  return { ...measured, longest };
}

const results = new Map();
const note = (name, value) => results.set(name, [...(results.get(name) ?? []), value]);
const noteFrames = (name, { frame, task }) => {
  note(`${name}, p99 frame, ms`, frame);
  note(`${name}, longest task, CPU ms`, task);
};

await fill("ten", 10_000);
await fill("hundred", 100_000);
for (let run = 0; run < runs; run += 1) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--js-flags=--expose-gc", "--enable-precise-memory-info"] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  note("10,000 blocks: first useful paint, ms", await openFromList(page, "Session of 10000 blocks"));
  noteFrames("10,000 blocks: scrolling", await scroll(page, 5));
  noteFrames("10,000 blocks: 50 deltas a second", await stream(page, "ten", `live${run}`, 6));
  const { seq } = await (await fetch(new URL("/v1/sessions/ten", url), { headers: { authorization: `Bearer ${token}` } })).json();
  const scrubbed = await scrub(page, "ten", seq, 60);
  noteFrames("10,000 blocks: scrubbing", scrubbed);
  note("10,000 blocks: scrubbing, slowest position, ms", scrubbed.longest);
  note("10,000 blocks: memory after it, MB", await memory(page));
  note("100,000 blocks: first useful paint, ms", await openFromList(page, "Session of 100000 blocks"));
  noteFrames("100,000 blocks: scrolling", await scroll(page, 5));
  note("100,000 blocks: memory, MB", await memory(page));
  await browser.close();
}
for (const [name, values] of results) {
  console.log(`${name.padEnd(56)} ${median(values).toFixed(0).padStart(6)}   (${values.map((it) => it.toFixed(0)).join(", ")})`);
}
child.kill();
rmSync(folder, { recursive: true, force: true });
