// Sources of a conversation for the hooks: each becomes a store that runs while it is watched.

import type { ConversationState } from "./generated/types.js";
import { type ConnectionStatus, type ConnectOptions, connect } from "./connect.js";
import type { AnyEvent } from "./reduce.js";
import { type ConversationStore, createConversationStore } from "./store.js";

/** A function that gets a `dispatch`, and returns how to stop. */
export type DispatchSource = (dispatch: ConversationStore["dispatch"]) => (() => void) | void;

/** Where a conversation comes from. */
export type ConversationSource =
  | ConnectOptions
  | AsyncIterable<AnyEvent>
  | DispatchSource
  | ConversationStore;

/** A store with whatever feeds it. */
export interface RunningSource {
  readonly store: ConversationStore;
  /** Starts the source while anybody watches it; returns how to stop watching. */
  watch(listener: () => void): () => void;
  getStatus(): ConnectionStatus;
  getCursor(): string | undefined;
}

function isStore(source: ConversationSource): source is ConversationStore {
  return typeof (source as ConversationStore).getState === "function";
}

/** Returns a source that has not started: nothing happens before it is watched. */
export function createSource(source: ConversationSource, initial?: ConversationState): RunningSource {
  if (isStore(source)) {
    const watch = (listener: () => void) => source.subscribe(listener);
    return { store: source, watch, getStatus: () => LIVE, getCursor: () => undefined };
  }
  return new FedSource(source, createConversationStore(initial));
}

const LIVE: ConnectionStatus = { type: "live" };
/** React unmounts and mounts again at once, in development: that is not worth a new connection. */
const LINGER = 100;

class FedSource implements RunningSource {
  readonly store: ConversationStore;
  readonly #source: Exclude<ConversationSource, ConversationStore>;
  readonly #listeners = new Set<() => void>();
  #stop: (() => void) | undefined;
  #stopTimer: ReturnType<typeof setTimeout> | undefined;
  #status: ConnectionStatus = { type: "connecting" };
  #cursor: string | undefined;

  constructor(source: Exclude<ConversationSource, ConversationStore>, store: ConversationStore) {
    this.#source = source;
    this.store = store;
  }

  getStatus = (): ConnectionStatus => this.#status;
  getCursor = (): string | undefined => this.#cursor;

  watch = (listener: () => void): (() => void) => {
    clearTimeout(this.#stopTimer);
    this.#listeners.add(listener);
    const unsubscribe = this.store.subscribe(listener);
    this.#stop ??= this.#start();
    return () => {
      this.#listeners.delete(listener);
      unsubscribe();
      if (this.#listeners.size === 0) this.#stopTimer = setTimeout(this.#end, LINGER);
    };
  };

  #end = (): void => {
    this.#stop?.();
    this.#stop = undefined;
  };

  #setStatus(status: ConnectionStatus): void {
    this.#status = status;
    for (const listener of [...this.#listeners]) listener();
  }

  #start(): () => void {
    const source = this.#source;
    if (typeof source === "function") {
      const stop = source(this.store.dispatch);
      this.#status = LIVE;
      return stop ?? (() => {});
    }
    return Symbol.asyncIterator in source ? this.#iterate(source) : this.#connect(source);
  }

  #iterate(events: AsyncIterable<AnyEvent>): () => void {
    const iterator = events[Symbol.asyncIterator]();
    let isStopped = false;
    const run = async () => {
      this.#setStatus(LIVE);
      for (let it = await iterator.next(); !it.done && !isStopped; it = await iterator.next()) {
        this.store.dispatch(it.value);
      }
      if (!isStopped) this.#setStatus({ type: "ended", reason: "the events ended" });
    };
    run().catch((error: unknown) => this.#setStatus({ type: "ended", reason: String(error), error }));
    return () => {
      isStopped = true;
      void iterator.return?.();
    };
  }

  #connect(options: ConnectOptions): () => void {
    // A source that was stopped and is watched again continues where it was.
    const resumed = this.#cursor === undefined ? {} : { after: this.#cursor, state: this.store.getState() };
    const connection = connect({ ...options, ...resumed });
    const onState = () => {
      this.#cursor = connection.cursor;
      this.store.setState(connection.state);
    };
    connection.addEventListener("state", onState);
    connection.addEventListener("status", () => this.#setStatus(connection.status));
    return () => {
      // What was received and not published belongs to the cursor.
      this.store.flush();
      connection.removeEventListener("state", onState);
      connection.close();
    };
  }
}
