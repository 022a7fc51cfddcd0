// The reducer: events in, the next state out.

import type { ConversationState, FlatEvent, SessionEvent } from "./generated/types.js";
import { checked, engine, readJson, readText } from "./engine.js";
import { APPENDED, CHANGED, type Input, ODD } from "./moment.js";
import { stateOf, type Version, versionOf } from "./state.js";

/** An event in either form: with an envelope, or flat as in older programs. */
export type AnyEvent = SessionEvent | FlatEvent;

/** Something about an event that does not fit. */
export interface EventAnomaly {
  /** Which of the events, from 0. */
  readonly index: number;
  /** The event changed nothing. */
  readonly ignored: boolean;
  /** What does not fit. */
  readonly message: string;
}

export interface ReduceOptions {
  /** Called for each event that does not fit. */
  readonly onAnomaly?: (anomaly: EventAnomaly) => void;
}

/**
 * Returns the state after one event. Pure: the old state stays valid, and a block that did not
 * change is the same object in both.
 *
 * An event that does not fit never throws: the same state comes back.
 */
export function reduceSessionEvent(state: ConversationState, event: AnyEvent): ConversationState {
  const version = versionOf(state);
  const input = encode(event);
  return input === undefined ? state : step(state, version, input);
}

/**
 * Returns the state after many events: a list, or the text of them, one JSON object per line or one
 * JSON list. Faster than one by one, and text is faster than objects.
 */
export function reduceSessionEvents(
  state: ConversationState,
  events: Iterable<AnyEvent> | string,
  options: ReduceOptions = {},
): ConversationState {
  const version = versionOf(state);
  const text = typeof events === "string" ? events : toLines(events);
  return step(state, version, { kind: "events", text }, options);
}

/** Returns the state after the events of frames: the text of a JSON list. */
export function reduceFrames(state: ConversationState, frames: string): ConversationState {
  return step(state, versionOf(state), { kind: "frames", text: frames });
}

function step(
  state: ConversationState,
  { moment, shown }: Version,
  input: Input,
  { onAnomaly }: ReduceOptions = {},
): ConversationState {
  const { flags, next } = moment.advance(input);
  if (flags < 0) {
    onAnomaly?.({ index: 0, ignored: true, message: readText() });
    return state;
  }
  const changes = (flags & CHANGED) === 0 ? undefined : readText();
  if ((flags & ODD) !== 0 && onAnomaly !== undefined) {
    checked(engine().anomalies());
    readJson<EventAnomaly[]>().forEach(onAnomaly);
  }
  if (next === undefined) return state;
  const append = (flags & APPENDED) !== 0 && input.kind === "append" ? input : undefined;
  return stateOf({ moment: next, shown: shown.after(changes ?? append, next) });
}

function toLines(events: Iterable<AnyEvent>): string {
  const lines: string[] = [];
  for (const event of events) lines.push(toLine(event) ?? "null");
  return lines.join("\n");
}

/** Returns an event as JSON, unless it is none. */
function toLine(event: AnyEvent): string | undefined {
  try {
    return JSON.stringify(event);
  } catch {
    // Cycles, big integers, a `toJSON` that throws: not an event.
    return undefined;
  }
}

function encode(event: AnyEvent): Input | undefined {
  const append = asAppend(event);
  if (append !== undefined) return append;
  const text = toLine(event);
  return text === undefined ? undefined : { kind: "events", text };
}

type Loose = { readonly [name: string]: unknown };

function isObject(value: unknown): value is Loose {
  return typeof value === "object" && value !== null;
}

// JSON escapes half of a surrogate pair, and the reducer refuses it; the fast path would replace it.
const SURROGATE = /[\ud800-\udfff]/;

/** Returns a delta that the engine takes without JSON: the text of most events. */
function asAppend(event: unknown): Input | undefined {
  if (!isObject(event) || event.type !== "block:delta" || event.toJSON !== undefined) {
    return undefined;
  }
  const { payload, context } = event;
  let body: Loose;
  let conversationId: unknown;
  if (payload === undefined && context === undefined) {
    body = event;
    conversationId = event.conversationId;
  } else if (isObject(payload) && event.conversationId === undefined && isPlainContext(context)) {
    body = payload;
    conversationId = isObject(context) ? (context.conversationId ?? "main") : "main";
  } else {
    return undefined;
  }
  const { blockId, delta, field, offset } = body;
  if (typeof conversationId !== "string" || typeof blockId !== "string" || typeof delta !== "string") {
    return undefined;
  }
  const isPlain = (field === undefined || field === "content") && offset === undefined;
  if (!isPlain || SURROGATE.test(delta) || SURROGATE.test(blockId) || SURROGATE.test(conversationId)) {
    return undefined;
  }
  return { kind: "append", conversationId, blockId, text: delta };
}

function isPlainContext(context: unknown): boolean {
  return context === undefined || (isObject(context) && context.source === undefined);
}

let conversationEvents: ReadonlySet<string> | undefined;

/** Returns whether an event is one that the conversation's state depends on. */
export function isConversationEvent(event: unknown): event is AnyEvent {
  if (conversationEvents === undefined) {
    checked(engine().conversation_events());
    conversationEvents = new Set(readJson<string[]>());
  }
  return isObject(event) && typeof event.type === "string" && conversationEvents.has(event.type);
}
