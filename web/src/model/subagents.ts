// Subagents by all of their names, and the way from the session down to one.

import type { ConversationState, Subagent } from "threadfold/slim";

export interface SubagentIndex {
  find(name: string | undefined): Subagent | undefined;
  /** Returns the conversation that called a subagent; `main` where it is not known. */
  callerOf(subagent: Subagent): string;
}

const indexes = new WeakMap<readonly Subagent[], SubagentIndex>();

/** The name that a subagent's conversation is shown under. */
export function conversationOf(subagent: Subagent): string {
  return subagent.blocks[0]?.conversationId ?? subagent.agentId ?? subagent.toolUseId ?? "";
}

/** Returns whether a subagent is still at work. */
export function isRunning(subagent: Subagent): boolean {
  return subagent.status === "running" || subagent.status === "pending";
}

export function indexOf(state: ConversationState): SubagentIndex {
  const { subagents } = state;
  const known = indexes.get(subagents);
  if (known !== undefined) return known;
  const byName = new Map<string, Subagent>();
  for (const subagent of subagents) {
    const names = [conversationOf(subagent), subagent.agentId, subagent.toolUseId];
    for (const run of subagent.runs ?? []) names.push(run.toolUseId);
    for (const name of names) if (name !== undefined && !byName.has(name)) byName.set(name, subagent);
  }
  let callers: Map<Subagent, string> | undefined;
  const index: SubagentIndex = {
    find: (name) => (name === undefined ? undefined : byName.get(name)),
    callerOf(subagent) {
      if (callers === undefined) {
        callers = new Map();
        for (const caller of subagents) {
          for (const block of caller.blocks) {
            const called = block.type === "subagent" ? calledBy(index, block) : undefined;
            if (called !== undefined) callers.set(called, conversationOf(caller));
          }
        }
      }
      return callers.get(subagent) ?? "main";
    },
  };
  indexes.set(subagents, index);
  return index;
}

/** Returns the subagent that a call ran. */
export function calledBy(
  index: SubagentIndex,
  block: { readonly toolUseId?: string; readonly agentId?: string },
): Subagent | undefined {
  return index.find(block.agentId) ?? index.find(block.toolUseId);
}

/** Returns the subagents from the session down to a conversation, the last one being it. */
export function pathTo(state: ConversationState, conversation: string | undefined): Subagent[] {
  const index = indexOf(state);
  const path: Subagent[] = [];
  let subagent = index.find(conversation);
  while (subagent !== undefined && !path.includes(subagent)) {
    path.unshift(subagent);
    const caller = index.callerOf(subagent);
    subagent = caller === "main" ? undefined : index.find(caller);
  }
  return path;
}

/** What a subagent is called: its task, or its kind. */
export function nameOf(state: ConversationState, subagent: Subagent): string {
  const caller = indexOf(state).callerOf(subagent);
  const blocks = caller === "main" ? state.blocks : (indexOf(state).find(caller)?.blocks ?? []);
  for (const block of blocks) {
    if (block.type !== "subagent") continue;
    const isCall = block.agentId !== undefined ? block.agentId === subagent.agentId : block.toolUseId === subagent.toolUseId;
    if (isCall) return block.description ?? block.name;
  }
  return subagent.prompt ?? subagent.agentId ?? "subagent";
}
