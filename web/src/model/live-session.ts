// One session of the server: its state as it grows, and how the connection is.

import { useEffect, useState, useSyncExternalStore } from "react";
import {
  connect,
  type Connection,
  type ConnectionStatus,
  type ConversationState,
  type ConversationStore,
  createConversationStore,
  stateHash,
} from "threadfold/slim";
import type { Server } from "../lib/server.js";

/** How the connection of a session is, for the user. */
export interface Link {
  readonly status: ConnectionStatus;
  /** The last record in the state. */
  readonly seq: number | undefined;
  /** When the server last sent a snapshot, because it could not continue. */
  readonly gapHealedAt: number | undefined;
  readonly gaps: number;
}

const CONNECTING: Link = {
  status: { type: "connecting" },
  seq: undefined,
  gapHealedAt: undefined,
  gaps: 0,
};

export class LiveSession {
  readonly id: string;
  readonly store: ConversationStore = createConversationStore();
  readonly #connection: Connection;
  readonly #listeners = new Set<() => void>();
  #link = CONNECTING;

  constructor(server: Server, id: string) {
    this.id = id;
    const token = server.token === undefined ? {} : { token: server.token };
    // A browser has few connections for HTTP, and many for WebSockets.
    this.#connection = connect({ url: server.url, ...token, session: id, transport: "websocket" });
    this.#connection.addEventListener("state", () => {
      this.store.setState(this.#connection.state);
    });
    this.#connection.addEventListener("status", () => this.#update({ status: this.#connection.status }));
    this.#connection.addEventListener("gap", () => {
      this.#update({ gapHealedAt: Date.now(), gaps: this.#connection.gaps });
    });
    this.store.subscribe(() => this.#update({ seq: seqOf(this.#connection.cursor) }));
  }

  getLink = (): Link => this.#link;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The state that was received, which may be newer than what is drawn, with its record and hash. */
  get received(): { seq: number | undefined; hash: string; gaps: number; connects: number } {
    const { state, cursor, gaps, connects } = this.#connection;
    return { seq: seqOf(cursor), hash: stateHash(state), gaps, connects };
  }

  /** The state that is drawn: the present one, or one of the past. */
  shown: ConversationState | undefined;

  get shownHash(): string | undefined {
    return this.shown === undefined ? undefined : stateHash(this.shown);
  }

  close(): void {
    this.#connection.close();
  }

  #update(change: Partial<Link>): void {
    this.#link = { ...this.#link, ...change };
    for (const listener of this.#listeners) listener();
  }
}

function seqOf(cursor: string | undefined): number | undefined {
  return cursor === undefined ? undefined : Number(cursor.slice(cursor.lastIndexOf(".") + 1));
}

/** Returns a session, connected while it is shown. */
export function useLiveSession(server: Server, id: string): LiveSession | undefined {
  const [live, setLive] = useState<LiveSession>();
  useEffect(() => {
    const opened = new LiveSession(server, id);
    setLive(opened);
    // For the console, and for tests.
    Object.assign(globalThis, { threadfold: opened });
    return () => {
      opened.close();
      setLive(undefined);
    };
  }, [server, id]);
  return live?.id === id ? live : undefined;
}

export function useStoreState(store: ConversationStore): ConversationState {
  return useSyncExternalStore(store.subscribe, store.getState);
}

export function useLink(live: LiveSession): Link {
  return useSyncExternalStore(live.subscribe, live.getLink);
}
