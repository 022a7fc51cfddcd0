// A state that others watch: updated from any source, published once per frame.

import type { Block, ConversationState } from "./generated/types.js";
import { type AnyEvent, reduceSessionEvents } from "./reduce.js";
import { findBlock } from "./find.js";
import { createInitialConversationState } from "./state.js";

type Listener = () => void;

/** A state that others watch. */
export interface ConversationStore {
  /** Returns the state that was published last. */
  getState(): ConversationState;
  /** Calls a listener whenever another state is published; returns how to stop. */
  subscribe(listener: Listener): () => void;
  /** Calls a listener whenever one block is another object, appears or disappears. */
  subscribeBlock(blockId: string, listener: Listener): () => void;
  /** Applies one event or several. They are published with the next frame. */
  dispatch(events: AnyEvent | readonly AnyEvent[]): void;
  /** Replaces the state. It is published with the next frame. */
  setState(state: ConversationState): void;
  /** Publishes at once. */
  flush(): void;
}

/** Returns a store with a state. */
export function createConversationStore(
  initial: ConversationState = createInitialConversationState(),
): ConversationStore {
  return new Store(initial);
}

class Store implements ConversationStore {
  #published: ConversationState;
  #next: ConversationState;
  #events: AnyEvent[] = [];
  #cancel: (() => void) | undefined;
  readonly #listeners = new Set<Listener>();
  readonly #blocks = new Map<string, Set<Listener>>();

  constructor(initial: ConversationState) {
    this.#published = initial;
    this.#next = initial;
  }

  getState = (): ConversationState => this.#published;

  subscribe = (listener: Listener): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  subscribeBlock = (blockId: string, listener: Listener): (() => void) => {
    const listeners = this.#blocks.get(blockId) ?? new Set();
    this.#blocks.set(blockId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#blocks.delete(blockId);
    };
  };

  dispatch = (events: AnyEvent | readonly AnyEvent[]): void => {
    if (Array.isArray(events)) this.#events.push(...(events as readonly AnyEvent[]));
    else this.#events.push(events as AnyEvent);
    this.#cancel ??= onNextFrame(this.flush);
  };

  setState = (state: ConversationState): void => {
    this.#events = [];
    this.#next = state;
    this.#cancel ??= onNextFrame(this.flush);
  };

  flush = (): void => {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#events.length > 0) {
      this.#next = reduceSessionEvents(this.#next, this.#events);
      this.#events = [];
    }
    const before = this.#published;
    if (this.#next === before) return;
    this.#published = this.#next;
    if (this.#blocks.size > 0) this.#notifyBlocks(before, this.#published);
    for (const listener of [...this.#listeners]) listener();
  };

  /** Listeners of blocks that did not change are not called: there may be one for every block. */
  #notifyBlocks(before: ConversationState, after: ConversationState): void {
    const changed = new Set<string>();
    collectChanged(before.blocks, after.blocks, changed);
    if (before.subagents !== after.subagents) {
      const known = new Set(before.subagents);
      const stays = new Set(after.subagents);
      for (const one of after.subagents) if (!known.has(one)) addAll(one.blocks, changed);
      for (const one of before.subagents) if (!stays.has(one)) addAll(one.blocks, changed);
    }
    for (const id of changed) {
      for (const listener of [...(this.#blocks.get(id) ?? [])]) listener();
    }
  }
}

function addAll(blocks: readonly Block[], ids: Set<string>): void {
  for (const block of blocks) ids.add(block.id);
}

/** Adds the ids of blocks that differ, between the equal beginnings and ends of two lists. */
function collectChanged(before: readonly Block[], after: readonly Block[], ids: Set<string>): void {
  if (before === after) return;
  let start = 0;
  const shorter = Math.min(before.length, after.length);
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const isMoved = before.length !== after.length;
  for (let at = start; at < before.length - end; at += 1) {
    if (isMoved || before[at] !== after[at]) ids.add(before[at]!.id);
  }
  for (let at = start; at < after.length - end; at += 1) {
    if (isMoved || before[at] !== after[at]) ids.add(after[at]!.id);
  }
}

/** Calls with the next frame of the page; without a page that is shown, soon. Returns how not to. */
function onNextFrame(call: () => void): () => void {
  const hasFrames = typeof requestAnimationFrame === "function" && typeof document !== "undefined";
  if (hasFrames && !document.hidden) {
    const frame = requestAnimationFrame(call);
    // A page that is hidden before the frame gets none.
    const timer = setTimeout(call, 250);
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }
  const timer = setTimeout(call, 16);
  return () => clearTimeout(timer);
}

/** Returns a block of a store's state, in any conversation. */
export function blockOf(store: ConversationStore, blockId: string): Block | undefined {
  return findBlock(store.getState(), blockId);
}
