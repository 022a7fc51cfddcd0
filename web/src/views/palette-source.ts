// What the palette can find in the session that is open.

import type { Block, ConversationState } from "threadfold/slim";
import { firstLine } from "../lib/format.js";
import { type SessionRoute, sessionRoute } from "../lib/route.js";
import { conversationOf, nameOf } from "../model/subagents.js";
import { summarizeTool } from "../model/tool.js";

interface Offer {
  readonly state: ConversationState;
  readonly route: SessionRoute;
}

let offer: Offer | undefined;

/** Offers the blocks of a session; returns how to stop. */
export function offerBlocks(next: Offer): () => void {
  offer = next;
  return () => {
    if (offer === next) offer = undefined;
  };
}

export function offeredRoute(): SessionRoute | undefined {
  return offer?.route;
}

export interface FoundBlock {
  readonly key: string;
  readonly kind: string;
  readonly words: string;
  readonly route: SessionRoute;
}

function textOf(block: Block): [string, string] {
  switch (block.type) {
    case "user_message":
      return ["prompt", typeof block.content === "string" ? block.content : block.content.map((it) => (it.type === "text" ? it.text : "")).join(" ")];
    case "assistant_text":
      return ["answer", block.content];
    case "thinking":
      return ["thought", block.content];
    case "tool_use": {
      const { name, title } = summarizeTool(block);
      return [name, title];
    }
    case "tool_result":
      return ["output", typeof block.output === "string" ? block.output : ""];
    case "subagent":
      return ["subagent", `${block.description ?? ""} ${block.name}`];
    case "error":
      return ["error", block.message];
    case "system":
      return [block.subtype, block.message ?? ""];
    default:
      return [block.type, ""];
  }
}

/** Returns the last blocks that contain a text. */
export function findBlocks(text: string, most: number): FoundBlock[] {
  if (offer === undefined || text.length < 2) return [];
  const { state, route } = offer;
  const wanted = text.toLowerCase();
  const found: FoundBlock[] = [];
  const search = (conversation: string | undefined, prefix: string, blocks: readonly Block[]) => {
    for (let at = blocks.length - 1; at >= 0 && found.length < most; at -= 1) {
      const block = blocks[at]!;
      const [kind, words] = textOf(block);
      const place = words.toLowerCase().indexOf(wanted);
      if (place < 0 && !kind.toLowerCase().includes(wanted)) continue;
      const id = block.type === "tool_result" ? block.toolUseId : block.id;
      const shown = firstLine(words.slice(Math.max(0, place - 40)), 120);
      const target = sessionRoute(route.session, { conversation, block: id, at: route.at });
      found.push({ key: `${conversation ?? ""}/${block.id}`, kind: prefix + kind, words: shown, route: target });
    }
  };
  search(undefined, "", state.blocks);
  for (const subagent of state.subagents) search(conversationOf(subagent), `${nameOf(state, subagent).slice(0, 24)} · `, subagent.blocks);
  // In the order of the conversation: the third edit is the third one.
  return found.reverse();
}
