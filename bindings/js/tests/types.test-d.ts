import {
  type Block,
  type ConversationState,
  createInitialConversationState,
  reduceSessionEvent,
  type SessionEvent,
  type ToolUseBlock,
} from "threadfold";
import { expectTypeOf, test } from "vitest";

test("a block is told apart by its type", () => {
  const block = {} as Block;
  if (block.type === "tool_use") {
    expectTypeOf(block).toEqualTypeOf<ToolUseBlock>();
    expectTypeOf(block.toolName).toEqualTypeOf<string>();
  }
  if (block.type === "assistant_text") expectTypeOf(block.content).toEqualTypeOf<string>();
  expectTypeOf<Block["type"]>().toExtend<string>();
  // @ts-expect-error a thinking block has no tool
  if (block.type === "thinking") block.toolName;
});

test("the reducer is one", () => {
  expectTypeOf(createInitialConversationState()).toEqualTypeOf<ConversationState>();
  expectTypeOf(reduceSessionEvent).returns.toEqualTypeOf<ConversationState>();
  expectTypeOf<SessionEvent>().toExtend<Parameters<typeof reduceSessionEvent>[1]>();
  expectTypeOf<ConversationState["blocks"]>().toEqualTypeOf<readonly Block[]>();
  // @ts-expect-error a state is not written to
  createInitialConversationState().blocks = [];
});

test("an event has its own payload", () => {
  const event = {} as SessionEvent;
  if (event.type === "block:delta") expectTypeOf(event.payload.delta).toEqualTypeOf<string>();
  // @ts-expect-error a delta has text
  ({ type: "block:delta", payload: { blockId: "a" } }) satisfies SessionEvent;
});
