// Finds blocks and subagents by their names.

import type { Block, ConversationState, Subagent } from "./generated/types.js";
import { checked, engine, readText, writeText, writeTexts } from "./engine.js";
import { versionOf, viewOf } from "./state.js";

/**
 * Returns a subagent by any of its names: the id of a call that ran it, its own id with or without
 * `agent-`, or an older id.
 */
export function findSubagent(
  state: ConversationState,
  toolUseIdOrAgentId: string,
): Subagent | undefined {
  const handle = versionOf(state).moment.state();
  const found = checked(engine().state_find_subagent(handle, writeText(toolUseIdOrAgentId)));
  if (found !== 0) return undefined;
  // The view may have to be read, and that writes to the same output.
  const name = readText();
  return viewOf(state).byName.get(name)?.subagent;
}

/**
 * Returns a block by its id. Without a conversation, the main one is searched first, then each
 * subagent's in order.
 */
export function findBlock(
  state: ConversationState,
  blockId: string,
  conversationId?: string,
): Block | undefined {
  if (conversationId !== undefined) return findIn(state, conversationId, blockId);
  const found = findIn(state, "main", blockId);
  if (found !== undefined) return found;
  for (const name of viewOf(state).byName.keys()) {
    const block = findIn(state, name, blockId);
    if (block !== undefined) return block;
  }
  return undefined;
}

function findIn(state: ConversationState, name: string, blockId: string): Block | undefined {
  const handle = versionOf(state).moment.state();
  const [conversation, block] = writeTexts(name, blockId) as [number, number];
  const at = engine().state_find_block(handle, conversation + block, conversation);
  if (at < 0) return undefined;
  const blocks = name === "main" ? state.blocks : findSubagent(state, name)?.blocks;
  return blocks?.[at];
}
