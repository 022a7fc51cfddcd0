// States of the engine that JavaScript owns. Nobody frees them by hand.

import { checked, engine } from "./engine.js";

/** A state of the engine. It is freed when nothing refers to it any more. */
export class Handle {
  readonly id: number;

  constructor(id: number) {
    this.id = checked(id);
    states.register(this, this.id);
  }

  /** Returns a state of its own that equals this one. */
  clone(): Handle {
    return new Handle(engine().state_clone(this.id));
  }
}

const states = new FinalizationRegistry((id: number) => engine().state_free(id));

/** What the engine uses. */
export interface EngineUsage {
  /** How many states of the engine exist. */
  readonly states: number;
  /** The bytes of its memory, which never shrinks. */
  readonly bytes: number;
}

/** Returns what the engine uses, for tests that look for leaks. */
export function engineUsage(): EngineUsage {
  const { state_count, memory } = engine();
  return { states: state_count(), bytes: memory.buffer.byteLength };
}
