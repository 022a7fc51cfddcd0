// A real `threadfold serve`, started, restarted and killed.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { SessionEvent } from "threadfold";

const program = process.env.THREADFOLD_PROGRAM ?? fileURLToPath(new URL("../../../target/debug/threadfold", import.meta.url));

export class TestServer {
  readonly folder = mkdtempSync(join(tmpdir(), "threadfold-js-"));
  #process: ChildProcess | undefined;
  url = "";
  token = "";
  #positions = new Map<string, number>();
  readonly #more: string[];

  constructor(more: string[] = []) {
    this.#more = more;
  }

  async start(): Promise<void> {
    const bind = this.url === "" ? "127.0.0.1:0" : new URL(this.url).host;
    const token = join(this.folder, "token");
    const options = ["--bind", bind, "--store", join(this.folder, "store.db"), "--token-file", token, "--agent-home", this.folder, ...this.#more];
    const child = spawn(program, ["serve", ...options], { stdio: ["ignore", "pipe", "ignore"] });
    this.#process = child;
    for await (const line of createInterface({ input: child.stdout! })) {
      if (line.startsWith("listening on ")) {
        this.url = line.slice("listening on ".length);
        break;
      }
    }
    child.stdout!.resume();
    this.token = readFileSync(token, "utf8").trim();
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
    this.#process = undefined;
  }

  async restart(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await this.stop(signal);
    await this.start();
  }

  async remove(): Promise<void> {
    await this.stop("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  async request(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${this.token}` };
    return fetch(new URL(path, this.url), { ...init, headers });
  }

  /** Appends events to a session. */
  async push(session: string, events: readonly SessionEvent[]): Promise<void> {
    const body = events.map((event) => `${JSON.stringify(event)}\n`).join("");
    const position = this.#positions.get(session) ?? 0;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const query = `stream=js&position=${position}&format=events`;
        const answer = await this.request(`/v1/sessions/${session}/records?${query}`, { method: "POST", body });
        if (answer.ok) break;
        if (attempt > 200) throw new Error(await answer.text());
      } catch (error) {
        if (attempt > 200) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    this.#positions.set(session, position + Buffer.byteLength(body));
  }

  /** Returns the hash of a session's state after a record. */
  async hash(session: string, seq: number): Promise<string> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const answer = await this.request(`/v1/sessions/${session}/state?at=${seq}`);
        const body = (await answer.json()) as { stateHash?: string; hash?: string };
        const hash = body.stateHash ?? body.hash;
        if (hash !== undefined) return hash;
        if (attempt > 100) throw new Error(JSON.stringify(body).slice(0, 300));
      } catch (error) {
        if (attempt > 100) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
}

/** Waits until something holds. */
export async function until(holds: () => boolean, what: string, limit = 20_000): Promise<void> {
  const start = Date.now();
  while (!holds()) {
    if (Date.now() - start > limit) throw new Error(`${what}: it did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
