// A session of a server: its frames folded by the same reducer, over any number of connections.

import type { ConversationState, Frame } from "./generated/types.js";
import { type FrameHead, isFoldedSnapshot, readCursor, readHead } from "./frames.js";
import { reduceFrames } from "./reduce.js";
import { restoreState } from "./snapshot.js";
import { createInitialConversationState } from "./state.js";
import {
  ConnectError,
  type FrameRequest,
  framesOverEvents,
  framesOverWebSocket,
  type ServerAddress,
  type WebSocketClass,
} from "./transports.js";

export { ConnectError, type WebSocketClass };

export interface ConnectOptions extends ServerAddress {
  /** The id of the session. */
  readonly session: string;
  /** The cursor to continue after, with the `state` at that cursor. */
  readonly after?: string;
  /** The state at `after`, from `restoreState`. */
  readonly state?: ConversationState;
  /** `events` (the default) are folded here; `changes` are handed on as they are. */
  readonly view?: "events" | "changes";
  /** `sse` (the default) or `websocket`. */
  readonly transport?: "sse" | "websocket";
  /** The class of WebSockets, where there is no global one. */
  readonly WebSocket?: WebSocketClass;
  /** Ends the connection. */
  readonly signal?: AbortSignal;
}

/** How a connection is. */
export type ConnectionStatus =
  | { readonly type: "connecting" }
  | { readonly type: "live" }
  /** So many records were received and are not in the state yet. */
  | { readonly type: "behind"; readonly records: number }
  | { readonly type: "reconnecting"; readonly attempt: number; readonly error: unknown }
  | { readonly type: "ended"; readonly reason: string; readonly error?: unknown };

/** What a connection yields. */
export type ConnectionUpdate =
  | { readonly type: "state"; readonly state: ConversationState; readonly cursor: string }
  | { readonly type: "gap"; readonly reason: string; readonly cursor: string }
  | { readonly type: "changes"; readonly frame: Frame; readonly cursor: string }
  | { readonly type: "end"; readonly reason: string; readonly cursor: string };

/** How many frames are applied before other work of the page gets its turn. */
const MOST_AT_ONCE = 512;
/** The server sends a sign of life every fifteen seconds. */
const SILENCE = 45_000;
const SHORTEST_PAUSE = 50;
const LONGEST_PAUSE = 5_000;

/**
 * A session of a server. Iterate it for updates, or listen to its events `state`, `status`, `gap`,
 * `frame` and `end`; both may be used at once.
 */
export class Connection extends EventTarget implements AsyncIterable<ConnectionUpdate> {
  readonly #options: ConnectOptions;
  readonly #abort = new AbortController();
  #attempt: AbortController | undefined;
  #state: ConversationState;
  #cursor: string | undefined;
  #status: ConnectionStatus = { type: "connecting" };
  #gaps = 0;
  #connects = 0;
  readonly #readers = new Set<Reader>();
  readonly #done: Promise<void>;

  /** @internal */
  constructor(options: ConnectOptions) {
    super();
    this.#options = options;
    this.#cursor = options.after;
    this.#state = options.state ?? createInitialConversationState();
    const { signal } = options;
    if (signal?.aborted) this.#abort.abort();
    signal?.addEventListener("abort", () => this.close(), { once: true });
    // The caller adds its listeners first.
    this.#done = Promise.resolve().then(() => this.#run());
  }

  /** The state, as far as frames were applied. */
  get state(): ConversationState {
    return this.#state;
  }

  /** The cursor of the last record in the state: store it with `serializeState(state)`. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  get status(): ConnectionStatus {
    return this.#status;
  }

  /** How often the server could not continue and sent a snapshot instead. */
  get gaps(): number {
    return this.#gaps;
  }

  /** How often it connected. */
  get connects(): number {
    return this.#connects;
  }

  /** Settles when the connection has ended. */
  get closed(): Promise<void> {
    return this.#done;
  }

  /** Ends the connection. */
  close(): void {
    this.#abort.abort();
    this.#attempt?.abort();
  }

  /** Breaks the transport, as a bad network would. It reconnects. */
  disconnect(): void {
    this.#attempt?.abort();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ConnectionUpdate> {
    const reader = new Reader();
    this.#readers.add(reader);
    if (this.#status.type === "ended") reader.end();
    try {
      for (let update = await reader.next(); update !== undefined; update = await reader.next()) {
        yield update;
      }
      if (this.#status.type === "ended" && this.#status.error !== undefined) throw this.#status.error;
    } finally {
      this.#readers.delete(reader);
    }
  }

  async #run(): Promise<void> {
    let attempt = 0;
    while (!this.#abort.signal.aborted && this.#status.type !== "ended") {
      let error: unknown;
      try {
        await this.#connectOnce(() => (attempt = 0));
        error = new ConnectError("the connection ended");
      } catch (thrown) {
        error = thrown;
        if (thrown instanceof ConnectError && !thrown.isTemporary) {
          return this.#end(thrown.message, thrown);
        }
      }
      if (this.#abort.signal.aborted || this.#isEnded()) break;
      attempt += 1;
      this.#setStatus({ type: "reconnecting", attempt, error });
      await this.#pause(attempt);
    }
    if (!this.#isEnded()) this.#end("closed");
  }

  #isEnded(): boolean {
    return this.#status.type === "ended";
  }

  /** Waits longer after each attempt, and not all clients equally long. */
  #pause(attempt: number): Promise<void> {
    const most = Math.min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** Math.min(attempt - 1, 10));
    const { signal } = this.#abort;
    return new Promise((resolve) => {
      const stop = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", stop);
        resolve();
      };
      const timer = setTimeout(stop, most * (0.5 + Math.random() / 2));
      signal.addEventListener("abort", stop);
    });
  }

  async #connectOnce(onFrames: () => void): Promise<void> {
    const attempt = new AbortController();
    this.#attempt = attempt;
    if (this.#abort.signal.aborted) return;
    const { session, view = "events", transport = "sse" } = this.#options;
    const request: FrameRequest = {
      ...this.#options,
      session,
      view,
      after: this.#cursor,
      signal: attempt.signal,
    };
    const frames = transport === "sse" ? framesOverEvents(request) : framesOverWebSocket(request);
    let silence: ReturnType<typeof setTimeout> | undefined;
    const listen = () => {
      clearTimeout(silence);
      silence = setTimeout(() => attempt.abort(new ConnectError("the server is silent")), SILENCE);
    };
    let isFirst = true;
    listen();
    try {
      for await (const texts of frames) {
        // What was received after the connection broke is received again.
        if (attempt.signal.aborted) return;
        listen();
        if (isFirst) this.#connects += 1;
        isFirst = false;
        onFrames();
        if (!(await this.#receive(texts.map(readHead), attempt.signal))) return;
      }
    } finally {
      clearTimeout(silence);
      attempt.abort();
    }
  }

  /** Applies frames; returns whether the connection goes on. */
  async #receive(frames: FrameHead[], signal: AbortSignal): Promise<boolean> {
    for (let start = 0; start < frames.length; start += MOST_AT_ONCE) {
      if (start > 0) {
        this.#setStatus({ type: "behind", records: frames.length - start });
        await new Promise((resolve) => setTimeout(resolve));
        if (signal.aborted) return false;
      }
      if (!this.#apply(frames.slice(start, start + MOST_AT_ONCE))) return false;
    }
    this.#setStatus({ type: "live" });
    return true;
  }

  #apply(frames: FrameHead[]): boolean {
    const events: FrameHead[] = [];
    for (const frame of frames) {
      this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
      if (frame.type === "events") {
        events.push(frame);
        continue;
      }
      if (!this.#applyEvents(events.splice(0)) || !this.#applyOther(frame)) return false;
    }
    return this.#applyEvents(events);
  }

  #applyEvents(frames: FrameHead[]): boolean {
    const next: string[] = [];
    for (const { cursor, text } of frames) {
      const at = readCursor(cursor);
      const seen = this.#cursor === undefined ? undefined : readCursor(this.#cursor);
      if (seen === undefined || at.log !== seen.log || at.seq > seen.seq + 1) {
        // A server that was replaced may continue elsewhere: a snapshot settles it.
        this.#cursor = undefined;
        this.#reportGap(`the frame at ${cursor} does not follow`, cursor);
        return false;
      }
      if (at.seq <= seen.seq) continue;
      next.push(text);
      this.#cursor = cursor;
    }
    if (next.length > 0) this.#setState(reduceFrames(this.#state, `[${next.join(",")}]`));
    return true;
  }

  #applyOther(head: FrameHead): boolean {
    if (this.#options.view !== "changes" && isFoldedSnapshot(head.text)) return this.#restore(head);
    const frame = JSON.parse(head.text) as Frame | { type: "error"; status?: number; detail?: string };
    switch (frame.type) {
      case "snapshot":
        if (this.#options.view === "changes") return this.#handOn(frame, head.cursor);
        if (frame.snapshot === undefined) {
          const notice = frame.notice ?? "the server sends changes, and this client folds events";
          throw new ConnectError(notice, 409);
        }
        return this.#restore(head);
      case "changes":
        return this.#handOn(frame, head.cursor);
      case "gap":
        this.#reportGap(frame.reason, head.cursor);
        return true;
      case "end":
        this.#end(frame.reason);
        return false;
      case "error":
        throw new ConnectError(frame.detail ?? "the server reports an error", frame.status ?? 400);
      default:
        return true;
    }
  }

  #restore(head: FrameHead): boolean {
    this.#cursor = head.cursor;
    this.#setState(restoreState(head.text));
    return true;
  }

  #handOn(frame: Frame, cursor: string): boolean {
    this.#cursor = cursor;
    this.#publish({ type: "changes", frame, cursor });
    return true;
  }

  #setState(state: ConversationState): void {
    this.#state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
    this.#publish({ type: "state", state, cursor: this.#cursor ?? "" });
  }

  #reportGap(reason: string, cursor: string): void {
    this.#gaps += 1;
    this.dispatchEvent(new CustomEvent("gap", { detail: reason }));
    this.#publish({ type: "gap", reason, cursor });
  }

  #setStatus(status: ConnectionStatus): void {
    if (this.#isEnded() || (status.type === "live" && this.#status.type === "live")) return;
    this.#status = status;
    this.dispatchEvent(new CustomEvent("status", { detail: status }));
  }

  #end(reason: string, error?: unknown): void {
    this.#setStatus(error === undefined ? { type: "ended", reason } : { type: "ended", reason, error });
    this.dispatchEvent(new CustomEvent("end", { detail: reason }));
    if (error === undefined) this.#publish({ type: "end", reason, cursor: this.#cursor ?? "" });
    for (const reader of this.#readers) reader.end();
  }

  #publish(update: ConnectionUpdate): void {
    for (const reader of this.#readers) reader.push(update);
  }
}

/** The updates that one reader has not taken. A state replaces the one before it. */
class Reader {
  #updates: ConnectionUpdate[] = [];
  #isEnded = false;
  #wake = () => {};

  push(update: ConnectionUpdate): void {
    const isReplaced = update.type === "state" && this.#updates.at(-1)?.type === "state";
    if (isReplaced) this.#updates.pop();
    this.#updates.push(update);
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  async next(): Promise<ConnectionUpdate | undefined> {
    while (this.#updates.length === 0 && !this.#isEnded) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return this.#updates.shift();
  }
}

/** Connects to a session of a server. */
export function connect(options: ConnectOptions): Connection {
  const { after, state, view = "events" } = options;
  if (view === "events" && (after === undefined) !== (state === undefined)) {
    throw new TypeError(
      "`after` and `state` belong together: events after a cursor continue the state at that cursor " +
        "(`serializeState`, `restoreState`)",
    );
  }
  return new Connection(options);
}
