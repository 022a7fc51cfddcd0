// States as text that keeps everything.

import type { ConversationState } from "./generated/types.js";
import { checked, engine, readText, writeText } from "./engine.js";
import { stateOfHandle, versionOf } from "./state.js";

/**
 * Returns a state as text, with everything that later events need: what each source reported, and
 * all names. It is the engine's own snapshot, byte for byte.
 */
export function serializeState(state: ConversationState): string {
  checked(engine().state_snapshot(versionOf(state).moment.state()));
  return readText();
}

/** Returns the state of a text of `serializeState`, or of a session's snapshot from a server. */
export function restoreState(text: string): ConversationState {
  if (typeof text !== "string") {
    throw new TypeError("restoreState takes the text that serializeState returned");
  }
  const state = engine().state_restore(writeText(text));
  if (state < 0) throw new Error(`this is not a text of serializeState: ${readText()}`);
  return stateOfHandle(state);
}

/** Returns the hash of a state: equal states have equal hashes, in every language. */
export function stateHash(state: ConversationState): string {
  checked(engine().state_hash(versionOf(state).moment.state()));
  return readText();
}

/** Returns whether two states show the same. */
export function statesEqual(one: ConversationState, other: ConversationState): boolean {
  const handles = [versionOf(one).moment.state(), versionOf(other).moment.state()] as const;
  return checked(engine().state_equals(...handles)) === 1;
}
