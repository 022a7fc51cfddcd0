// States: plain objects with a private link to the engine.

import type { Block, ConversationState, Subagent } from "./generated/types.js";
import { frozenState } from "./frozen.js";
import { Handle } from "./handle.js";
import { Moment } from "./moment.js";
import { Shown, type View } from "./shown.js";

/** What a state is made of. */
export interface Version {
  readonly moment: Moment;
  readonly shown: Shown;
}

/** Lets a class with a private field be put on an object that exists. */
class Existing {
  constructor(object: object) {
    return object;
  }
}

// A private field is not copied by spread, `JSON` or `structuredClone`: a copy is not mistaken for
// a state, and a state is a plain object to everybody else.
class Link extends Existing {
  #version: Version;

  constructor(object: object, version: Version) {
    super(object);
    this.#version = version;
  }

  static of(object: object): Version | undefined {
    return #version in object ? object.#version : undefined;
  }
}

// The getters are the same functions for every state, so that all states have one shape.
const BLOCKS: PropertyDescriptor = {
  enumerable: true,
  get(this: ConversationState): readonly Block[] {
    return viewOf(this).blocks;
  },
};
const SUBAGENTS: PropertyDescriptor = {
  enumerable: true,
  get(this: ConversationState): readonly Subagent[] {
    return viewOf(this).subagents;
  },
};

/** Returns the state of a version. */
export function stateOf(version: Version): ConversationState {
  const state = {} as ConversationState;
  new Link(state, version);
  // Both at once, with `defineProperties`, takes twice as long.
  Object.defineProperty(state, "blocks", BLOCKS);
  Object.defineProperty(state, "subagents", SUBAGENTS);
  return frozenState(state);
}

/** Returns the version of a state, or refuses what is not one. */
export function versionOf(state: ConversationState): Version {
  const version = typeof state === "object" && state !== null ? Link.of(state) : undefined;
  if (version === undefined) {
    throw new TypeError(
      "this is not a state of threadfold, or a copy of one (by JSON, structuredClone or spread), " +
        "which lacks what later events need: keep the state itself, or carry it with " +
        "`serializeState(state)` and `restoreState(text)`",
    );
  }
  return version;
}

/** Returns whether a value is a state that events can be applied to. */
export function isConversationState(value: unknown): value is ConversationState {
  return typeof value === "object" && value !== null && Link.of(value) !== undefined;
}

/** Returns all that a state shows. */
export function viewOf(state: ConversationState): View {
  const { shown, moment } = versionOf(state);
  return shown.view(moment);
}

/** Returns a state of the engine as a state without a past. */
export function stateOfHandle(id: number): ConversationState {
  const moment = Moment.of(new Handle(id));
  return stateOf({ moment, shown: Shown.whole(moment) });
}

/** Returns the state of a session without events. */
export function createInitialConversationState(): ConversationState {
  return stateOf({ moment: Moment.empty(), shown: Shown.empty() });
}
