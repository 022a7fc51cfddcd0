// Events for tests.

import type { SessionEvent } from "threadfold";

/** Returns a text block that is still open. */
export function text(id: string, content = "", conversationId = "main"): SessionEvent {
  return {
    type: "block:upsert",
    payload: { block: { id, type: "assistant_text", status: "pending", content } },
    context: { conversationId },
  };
}

export function delta(blockId: string, more: string, conversationId = "main"): SessionEvent {
  return { type: "block:delta", payload: { blockId, delta: more }, context: { conversationId } };
}
