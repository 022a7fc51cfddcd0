// What the agent does right now, in a few words: for the line that is always in view.

import type { Block, ConversationState } from "threadfold/slim";
import { parseTime } from "../lib/format.js";
import { conversationOf, isRunning, nameOf } from "./subagents.js";
import { questionOf, summarizeTool } from "./tool.js";

export interface Activity {
  readonly words: string;
  readonly since: number | undefined;
  readonly conversation: string;
  readonly block: string;
  readonly isWaiting: boolean;
  readonly weight: number;
}

const WEIGHTS: Partial<Record<Block["type"], number>> = { permission: 3, tool_use: 2, assistant_text: 1, thinking: 1 };

/** What is open is near the end. */
const LOOK_BACK = 200;

/** Returns what is open in a state, the main conversation first. */
export function activitiesOf(state: ConversationState): Activity[] {
  const found: Activity[] = [];
  collect("main", "", state.blocks, found);
  for (const subagent of state.subagents) {
    if (!isRunning(subagent) || subagent.internal === true) continue;
    collect(conversationOf(subagent), `${nameOf(state, subagent)}: `, subagent.blocks, found);
  }
  // A person is waited for; a command says more than that there is an answer.
  return found.sort((one, other) => other.weight - one.weight);
}

function collect(conversation: string, prefix: string, blocks: readonly Block[], found: Activity[]): void {
  for (let at = blocks.length - 1; at >= Math.max(0, blocks.length - LOOK_BACK); at -= 1) {
    const block = blocks[at]!;
    const words = block.interrupted === true ? undefined : wordsOf(block);
    if (words === undefined) continue;
    const isWaiting = block.type === "permission";
    const weight = WEIGHTS[block.type] ?? 0;
    found.push({ words: prefix + words, since: parseTime(block.timestamp), conversation, block: block.id, isWaiting, weight });
  }
}

function wordsOf(block: Block): string | undefined {
  if (block.status !== "pending" && block.status !== "running") return undefined;
  switch (block.type) {
    case "assistant_text":
      return "writing";
    case "thinking":
      return "thinking";
    case "tool_use": {
      const { name, title } = summarizeTool(block);
      return `${name} ${title}`;
    }
    case "permission":
      return questionOf(block);
    case "subagent":
      return `subagent ${block.description ?? block.name}`;
    default:
      return undefined;
  }
}
