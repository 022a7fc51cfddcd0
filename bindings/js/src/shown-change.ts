// One change of the engine, applied to what is shown.

import type { Block, Change } from "./generated/types.js";
import { isEqual } from "./is-equal.js";
import type { Draft } from "./shown.js";

export type ShownChange = Change;

type Fields = Record<string, unknown>;

export function applyChange(draft: Draft, change: ShownChange): void {
  switch (change.type) {
    case "block:inserted": {
      const blocks = draft.blocks(change.conversationId);
      const block = draft.make(() => change.block);
      if (block.type === "subagent") draft.reorder();
      const place = placeAfter(draft, blocks, change.conversationId, change.after);
      // Most blocks are new at the end, where `splice` would move the whole list.
      if (place === blocks.length) blocks.push(block);
      else blocks.splice(place, 0, block);
      return;
    }
    case "block:replaced":
      replace(draft, change.conversationId, change.block.id, (old) => {
        if (old.type === "subagent" || change.block.type === "subagent") draft.reorder();
        return change.block;
      });
      return;
    case "block:marked":
      replace(draft, change.conversationId, change.blockId, (old) => {
        const block: Fields = {};
        for (const [name, value] of Object.entries(old)) {
          if (name === "interrupted" || name === "inactive") continue;
          block[name] = name === "status" ? change.status : value;
          // The order is that of the engine, so that both have the same JSON.
          if (name !== "conversationId") continue;
          if (change.interrupted) block.interrupted = true;
          if (change.inactive) block.inactive = true;
        }
        return block as unknown as Block;
      });
      return;
    case "text:appended":
      replace(draft, change.conversationId, change.blockId, (old) => {
        if (change.field !== "input") return appended(old, change.text);
        const text = (old as unknown as Fields).inputText ?? "";
        return { ...old, inputText: `${text as string}${change.text}` } as Block;
      });
      return;
    case "block:moved": {
      const blocks = draft.blocks(change.conversationId);
      const from = find(draft, blocks, change.conversationId, change.blockId);
      if (from < 0) return;
      const [block] = blocks.splice(from, 1) as [Block];
      blocks.splice(placeAfter(draft, blocks, change.conversationId, change.after), 0, block);
      draft.reorder();
      return;
    }
    case "block:removed": {
      const blocks = draft.blocks(change.conversationId);
      const at = find(draft, blocks, change.conversationId, change.blockId);
      if (at >= 0) blocks.splice(at, 1);
      draft.reorder();
      return;
    }
    case "subagent:changed":
      draft.setHeader(change.conversationId, change.subagent);
      return;
    case "conversation:renamed": {
      draft.rename(change.from, change.to);
      const blocks = draft.blocks(change.to);
      blocks.forEach((old, index) => {
        blocks[index] = draft.make(() => ({ ...old, conversationId: change.to }));
      });
      return;
    }
    case "subagent:united": {
      draft.remove(change.conversationId);
      const blocks = draft.blocks(change.into);
      const before = new Map(blocks.map((block) => [block.id, block]));
      const after = change.blocks.map((block) =>
        draft.make(() => {
          const old = before.get(block.id);
          return old !== undefined && isEqual(old, block) ? old : block;
        }),
      );
      blocks.splice(0, blocks.length, ...after);
      return;
    }
  }
}

/** Returns a block with more content. */
export function appended(old: Block, text: string): Block {
  const before = (old as unknown as Fields).content ?? "";
  return { ...old, content: `${before as string}${text}` } as Block;
}

function replace(draft: Draft, name: string, id: string, change: (old: Block) => Block): void {
  const blocks = draft.blocks(name);
  const at = find(draft, blocks, name, id);
  if (at >= 0) blocks[at] = draft.make(() => change(blocks[at]!));
}

function placeAfter(draft: Draft, blocks: readonly Block[], name: string, after: string | null): number {
  if (after === null) return 0;
  const at = find(draft, blocks, name, after);
  return at < 0 ? blocks.length : at + 1;
}

/** How many blocks at the end are looked at first: most changes concern one of them. */
const NEAR_END = 16;

/** Returns the position of a block, or -1 if it is none of the last ones. */
export function findNearEnd(blocks: readonly Block[], id: string): number {
  const near = Math.max(0, blocks.length - NEAR_END);
  for (let at = blocks.length - 1; at >= near; at -= 1) {
    if (blocks[at]!.id === id) return at;
  }
  return -1;
}

function find(draft: Draft, blocks: readonly Block[], name: string, id: string): number {
  const found = findNearEnd(blocks, id);
  if (found >= 0 || blocks.length <= NEAR_END) return found;
  const hint = draft.hint(name, id);
  if (hint >= 0 && blocks[hint]?.id === id) return hint;
  return blocks.findIndex((block) => block.id === id);
}
