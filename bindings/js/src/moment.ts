// The engine's side of a state, at one moment of its history.
//
// A state of the engine is changed in place, so an event costs no copy: the handle moves to the new
// moment. The old one remembers what was applied and recovers its state by replaying a few events,
// should anybody need it. Every so often a moment keeps its own handle, so that few are a few; and
// so does the last one of a task, so that a state at rest is one handle.

import { appendText, checked, engine, writeText } from "./engine.js";
import { Handle } from "./handle.js";

/** How many events are replayed at most. */
const MOST_REPLAYED = 256;
/** A longer input is not remembered: the moment after it keeps its handle. */
const LONGEST_INPUT = 16_384;

/** Text for the content of a block. */
export interface Append {
  readonly kind: "append";
  readonly conversationId: string;
  readonly blockId: string;
  readonly text: string;
}

/** What is applied: events, frames, or a delta without JSON. */
export type Input =
  | { readonly kind: "events" | "frames"; readonly text: string }
  | Append;

export const CHANGED = 1;
export const ODD = 2;
export const APPENDED = 4;
export const TOUCHED = 8;

/** Moments whose events all came in the present task. */
const recent = new Set<Moment>();

/** Lets go of what only a burst of events needs, after the burst. */
function settle(): void {
  for (const moment of recent) moment.pin();
  recent.clear();
}

export class Moment {
  #handle: Handle | undefined;
  #parent: Moment | undefined;
  #input: Input | undefined;
  #age: number;

  private constructor(
    handle: Handle | undefined,
    parent: Moment | undefined,
    input: Input | undefined,
    age: number,
  ) {
    this.#handle = handle;
    this.#parent = parent;
    this.#input = input;
    this.#age = age;
  }

  /** Returns the beginning of a history without events. */
  static empty(): Moment {
    return new Moment(undefined, undefined, undefined, 0);
  }

  /** Returns the beginning of a history with a state. */
  static of(handle: Handle): Moment {
    return new Moment(handle, undefined, undefined, MOST_REPLAYED);
  }

  /** Returns the engine's state at this moment. */
  state(): number {
    return this.#own().id;
  }

  /** Applies an input, and returns its flags, with the moment after it if anything changed. */
  advance(input: Input): { flags: number; next: Moment | undefined } {
    const isPinned = this.#age >= MOST_REPLAYED;
    const own = this.#own();
    const handle = isPinned ? own.clone() : own;
    const flags = apply(handle.id, input);
    if (flags < 0 || (flags & (CHANGED | APPENDED | TOUCHED)) === 0) {
      return { flags, next: undefined };
    }
    if (isPinned) {
      this.#parent = undefined;
      this.#input = undefined;
    } else {
      this.#handle = undefined;
    }
    const isLong = input.kind !== "append" && input.text.length > LONGEST_INPUT;
    if (isLong) return { flags, next: new Moment(handle, undefined, undefined, MOST_REPLAYED) };
    const next = new Moment(handle, this, input, isPinned ? 1 : this.#age + 1);
    if (recent.size === 0) queueMicrotask(settle);
    recent.delete(this);
    recent.add(next);
    return { flags, next };
  }

  /** Keeps the handle for good, so that the past is not needed any more. */
  pin(): void {
    if (this.#handle === undefined) return;
    this.#parent = undefined;
    this.#input = undefined;
    this.#age = MOST_REPLAYED;
  }

  #own(): Handle {
    return (this.#handle ??= this.#recover());
  }

  #recover(): Handle {
    const inputs: Input[] = [];
    let moment: Moment = this;
    while (moment.#handle === undefined && moment.#parent !== undefined) {
      inputs.push(moment.#input!);
      moment = moment.#parent;
    }
    const handle = moment.#handle?.clone() ?? new Handle(engine().state_new());
    for (const input of inputs.reverse()) checked(apply(handle.id, input));
    return handle;
  }
}

function apply(state: number, input: Input): number {
  switch (input.kind) {
    case "append":
      return appendText(state, input.conversationId, input.blockId, input.text);
    case "events":
      return engine().state_apply(state, writeText(input.text));
    case "frames":
      return engine().state_apply_frames(state, writeText(input.text));
  }
}
