// A real `threadfold serve` with the page in it, and a connection to it that can be cut.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const target = fileURLToPath(new URL("../../target/debug", import.meta.url));
export const program = process.env.THREADFOLD_PROGRAM ?? join(target, "threadfold");
export const agentsProgram = process.env.THREADFOLD_AGENTS ?? join(target, "page_agents");
export const agentsFolder = join(target, "../agents");

export type AnyEvent = Record<string, unknown>;

export class TestServer {
  readonly folder = mkdtempSync(join(tmpdir(), "threadfold-page-"));
  readonly #home: string | undefined;
  readonly #positions = new Map<string, number>();
  #process: ChildProcess | undefined;
  #proxy: Server | undefined;
  readonly #sockets = new Set<Socket>();
  /** The server itself. */
  direct = "";
  /** The same server behind a connection that can be cut: what pages are opened with. */
  url = "";
  token = "";

  constructor(home?: string) {
    this.#home = home;
  }

  get tokenFile(): string {
    return join(this.folder, "token");
  }

  async start(): Promise<void> {
    if (this.#proxy === undefined) await this.#startProxy();
    const bind = this.direct === "" ? "127.0.0.1:0" : new URL(this.direct).host;
    const options = ["--bind", bind, "--store", join(this.folder, "store.db"), "--token-file", this.tokenFile, "--agent-home", this.#home ?? this.folder, "--public-url", this.url];
    const child = spawn(program, ["serve", ...options], { stdio: ["ignore", "pipe", "ignore"] });
    this.#process = child;
    for await (const line of createInterface({ input: child.stdout! })) {
      if (line.startsWith("listening on ")) {
        this.direct = line.slice("listening on ".length);
        break;
      }
    }
    child.stdout!.resume();
    this.token = readFileSync(this.tokenFile, "utf8").trim();
  }

  async #startProxy(): Promise<void> {
    this.#proxy = createServer((socket) => {
      const { port } = new URL(this.direct);
      const other = connect(Number(port), "127.0.0.1");
      for (const [one, two] of [[socket, other], [other, socket]] as const) {
        this.#sockets.add(one);
        one.on("error", () => two.destroy());
        one.on("close", () => {
          this.#sockets.delete(one);
          two.destroy();
        });
        one.pipe(two);
      }
    });
    await new Promise<void>((resolve) => this.#proxy!.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#proxy.address() as AddressInfo).port}`;
  }

  /** Cuts all connections, as a bad network does. */
  cut(): number {
    const count = this.#sockets.size;
    for (const socket of [...this.#sockets]) socket.destroy();
    return count;
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
    this.cut();
    this.#proxy?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async get<T>(path: string): Promise<T> {
    const answer = await fetch(new URL(path, this.direct), { headers: { authorization: `Bearer ${this.token}` } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Appends events to a session. */
  async push(session: string, events: readonly AnyEvent[]): Promise<void> {
    const body = events.map((event) => `${JSON.stringify(event)}\n`).join("");
    const position = this.#positions.get(session) ?? 0;
    const query = `stream=page&position=${position}&format=events`;
    const path = `/v1/sessions/${encodeURIComponent(session)}/records?${query}`;
    const answer = await fetch(new URL(path, this.direct), { method: "POST", body, headers: { authorization: `Bearer ${this.token}` } });
    if (!answer.ok) throw new Error(await answer.text());
    this.#positions.set(session, position + Buffer.byteLength(body));
  }

  /** Returns the hash of a session's state, after a record or at its end. */
  async state(session: string, seq?: number): Promise<{ seq: number; stateHash: string }> {
    return this.get(`/v1/sessions/${encodeURIComponent(session)}/state${seq === undefined ? "" : `?at=${seq}`}`);
  }
}

export async function until(holds: () => boolean | Promise<boolean>, what: string, limit = 60_000): Promise<void> {
  const start = Date.now();
  while (!(await holds())) {
    if (Date.now() - start > limit) throw new Error(`${what}: it did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
