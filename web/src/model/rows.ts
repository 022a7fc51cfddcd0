// A conversation as rows of a list: calls with their results, turns with their tokens, notices of
// the harness in groups, and the conversations of opened subagents in place.

import type {
  Block,
  ConversationState,
  PermissionBlock,
  Subagent,
  SubagentBlock,
  SystemBlock,
  TokenUsage,
  ToolResultBlock,
  ToolUseBlock,
} from "threadfold/slim";
import { parseTime } from "../lib/format.js";
import { addTokens, type Details, NO_TOKENS, shareOfCost } from "./details.js";
import { calledBy, conversationOf, indexOf, type SubagentIndex } from "./subagents.js";

interface RowFields {
  /** Unique in the list, and stable. */
  readonly key: string;
  readonly depth: number;
  readonly conversation: string;
}

export type PlainBlock = Exclude<Block, ToolUseBlock | SubagentBlock>;

export type Row = RowFields &
  (
    | { readonly kind: "block"; readonly block: PlainBlock }
    | {
        readonly kind: "tool";
        readonly block: ToolUseBlock;
        readonly result: ToolResultBlock | undefined;
        readonly question: PermissionBlock | undefined;
      }
    | {
        readonly kind: "subagent";
        readonly block: SubagentBlock | undefined;
        readonly subagent: Subagent | undefined;
        readonly isOpen: boolean;
        readonly usage: TokenUsage | undefined;
        readonly cost: number | undefined;
      }
    | { readonly kind: "noise"; readonly blocks: readonly SystemBlock[]; readonly isOpen: boolean }
    | { readonly kind: "boundary"; readonly block: SystemBlock | undefined; readonly count: number }
    | {
        readonly kind: "turn";
        readonly number: number;
        readonly usage: TokenUsage;
        readonly cost: number | undefined;
        readonly durationMs: number | undefined;
        readonly calls: number;
        readonly failures: number;
      }
  );

export interface RowOptions {
  /** The subagents and groups of notices that are open, by the key of their row. */
  readonly open: ReadonlySet<string>;
  readonly showsNoise: boolean;
  /** Only what is in the model's context. */
  readonly modelOnly: boolean;
  readonly details: Details | undefined;
}

/** What the harness writes, and nobody reads unless they look for it. */
const NOTABLE = new Set(["compaction", "summary", "interrupted"]);

/** Subagents inside of each other are drawn in place down to here; below, they are opened alone. */
const DEEPEST = 4;

export function rowKey(conversation: string, block: string): string {
  return `${conversation}/${block}`;
}

export function buildRows(state: ConversationState, conversation: string | undefined, options: RowOptions): Row[] {
  const index = indexOf(state);
  const rows: Row[] = [];
  const builder = new Builder(index, options, rows);
  const subagent = index.find(conversation);
  if (conversation === undefined) builder.add("main", state.blocks, 0);
  else if (subagent !== undefined) builder.add(conversationOf(subagent), subagent.blocks, 0);
  if (conversation === undefined) builder.addUnplaced(state);
  return rows;
}

type ToolRow = Extract<Row, { kind: "tool" }>;
type BlockRow = Extract<Row, { kind: "block" }>;

// Most rows are of one block, and a block that did not change is the same object in the next state:
// so is its row, and a long conversation is not made again with each word.
const toolRows = new WeakMap<Block, ToolRow>();
const blockRows = new WeakMap<Block, BlockRow>();

function toolRow(block: ToolUseBlock, result: ToolResultBlock | undefined, question: PermissionBlock | undefined, conversation: string, depth: number): ToolRow {
  const known = toolRows.get(block);
  if (known !== undefined && known.result === result && known.question === question && known.depth === depth) return known;
  const row: ToolRow = { kind: "tool", key: rowKey(conversation, block.id), depth, conversation, block, result, question };
  toolRows.set(block, row);
  return row;
}

function blockRow(block: PlainBlock, conversation: string, depth: number): BlockRow {
  const known = blockRows.get(block);
  if (known !== undefined && known.depth === depth) return known;
  const row: BlockRow = { kind: "block", key: rowKey(conversation, block.id), depth, conversation, block };
  blockRows.set(block, row);
  return row;
}

class Builder {
  readonly #index: SubagentIndex;
  readonly #options: RowOptions;
  readonly #rows: Row[];
  #totals = new Map<string, TokenUsage>();

  constructor(index: SubagentIndex, options: RowOptions, rows: Row[]) {
    this.#index = index;
    this.#options = options;
    this.#rows = rows;
  }

  add(conversation: string, blocks: readonly Block[], depth: number): void {
    const { showsNoise, modelOnly } = this.#options;
    const results = new Map<string, ToolResultBlock>();
    const questions = new Map<string, PermissionBlock>();
    const called = new Set<string>();
    for (const block of blocks) {
      if (block.type === "tool_result") results.set(block.toolUseId, block);
      else if (block.type === "tool_use") called.add(block.toolUseId);
      else if (block.type === "permission" && block.toolUseId !== undefined) questions.set(block.toolUseId, block);
      else if (block.type === "subagent" && block.toolUseId !== undefined) called.add(block.toolUseId);
    }
    const turn = new Turn(conversation, depth);
    let noise: SystemBlock[] = [];
    let inactive = 0;
    const fields = (id: string) => ({ key: rowKey(conversation, id), depth, conversation });
    const endNoise = () => {
      if (noise.length > 0) this.#addNoise(noise, conversation, depth);
      noise = [];
    };
    for (const block of blocks) {
      if (block.inactive === true) {
        inactive += 1;
        if (modelOnly) continue;
      } else if (inactive > 0) {
        endNoise();
        const isCompaction = block.type === "system" && block.subtype === "compaction";
        if (!isCompaction) this.#rows.push({ ...fields(`${block.id}#boundary`), kind: "boundary", block: undefined, count: inactive });
        else this.#rows.push({ ...fields(block.id), kind: "boundary", block, count: inactive });
        inactive = 0;
        if (isCompaction) continue;
      }
      turn.note(block, this.#options.details, (call) => this.#totalOf(call));
      if (isNoise(block)) {
        if (!modelOnly || showsNoise) noise.push(block as SystemBlock);
        continue;
      }
      // A call, and its result, are one row; text without words is none.
      if (block.type === "tool_result" && called.has(block.toolUseId)) continue;
      if (block.type === "assistant_text" && block.status !== "pending" && block.content.trim() === "") continue;
      endNoise();
      if (block.type === "user_message") this.#endTurn(turn, block);
      if (block.type === "tool_use") {
        this.#rows.push(toolRow(block, results.get(block.toolUseId), questions.get(block.toolUseId), conversation, depth));
      } else if (block.type === "subagent") {
        this.#addSubagent(fields(block.id), block, calledBy(this.#index, block));
      } else if (block.type === "system" && block.subtype === "compaction") {
        this.#rows.push({ ...fields(block.id), kind: "boundary", block, count: 0 });
      } else {
        this.#rows.push(blockRow(block, conversation, depth));
      }
    }
    endNoise();
    if (inactive > 0) {
      this.#rows.push({ ...fields("#boundary"), kind: "boundary", block: undefined, count: inactive });
    }
    this.#endTurn(turn, undefined);
  }

  /** Adds subagents whose call is not known: they are shown, and not placed by guessing. */
  addUnplaced(state: ConversationState): void {
    for (const subagent of state.subagents) {
      if (subagent.unplaced !== true || subagent.internal === true) continue;
      const name = conversationOf(subagent);
      this.#addSubagent({ key: rowKey(name, "#unplaced"), depth: 0, conversation: "main" }, undefined, subagent);
    }
  }

  #addSubagent(fields: RowFields, block: SubagentBlock | undefined, subagent: Subagent | undefined): void {
    const isOpen = this.#options.open.has(fields.key);
    const name = subagent === undefined ? undefined : conversationOf(subagent);
    const usage = name === undefined ? undefined : this.#totalOf(name);
    const { details } = this.#options;
    const cost = usage === undefined || details === undefined ? undefined : shareOfCost(details, usage);
    this.#rows.push({ ...fields, kind: "subagent", block, subagent, isOpen, usage, cost });
    if (isOpen && subagent !== undefined && name !== undefined && fields.depth < DEEPEST) {
      this.add(name, subagent.blocks, fields.depth + 1);
    }
  }

  #addNoise(blocks: SystemBlock[], conversation: string, depth: number): void {
    const key = rowKey(conversation, `${blocks[0]!.id}#noise`);
    const isOpen = this.#options.showsNoise || this.#options.open.has(key);
    this.#rows.push({ key, depth, conversation, kind: "noise", blocks, isOpen });
  }

  #endTurn(turn: Turn, next: Block | undefined): void {
    const { details } = this.#options;
    const row = turn.end(next);
    if (row === undefined || row.kind !== "turn") return;
    const cost = details === undefined ? undefined : shareOfCost(details, row.usage);
    this.#rows.push({ ...row, cost });
  }

  /** Returns the tokens of a subagent with those of all that it called. */
  #totalOf(conversation: string): TokenUsage {
    const known = this.#totals.get(conversation);
    if (known !== undefined) return known;
    let total = this.#options.details?.conversations.get(conversation) ?? NO_TOKENS;
    // Set before the others are read: a subagent that calls itself is counted once.
    this.#totals.set(conversation, total);
    for (const block of this.#index.find(conversation)?.blocks ?? []) {
      const called = block.type === "subagent" ? calledBy(this.#index, block) : undefined;
      if (called !== undefined) total = addTokens(total, this.#totalOf(conversationOf(called)));
    }
    this.#totals.set(conversation, total);
    return total;
  }
}

function isNoise(block: Block): boolean {
  if (block.interrupted === true) return false;
  return block.type === "system" && !NOTABLE.has(block.subtype);
}

/** A turn while it is collected: from one message of the user to the next. */
class Turn {
  readonly #conversation: string;
  readonly #depth: number;
  #number = 0;
  #id: string | undefined;
  #usage = NO_TOKENS;
  #messages = new Set<string>();
  #calls = 0;
  #failures = 0;
  #start: string | undefined;
  #last: string | undefined;
  #isOpen = false;

  constructor(conversation: string, depth: number) {
    this.#conversation = conversation;
    this.#depth = depth;
  }

  note(block: Block, details: Details | undefined, totalOf: (conversation: string) => TokenUsage): void {
    if (block.type === "user_message") return;
    if (block.timestamp !== undefined) this.#last = block.timestamp;
    if (block.status === "pending" || block.status === "running") this.#isOpen = true;
    const { messageId } = block;
    if (messageId !== undefined && !this.#messages.has(messageId)) {
      this.#messages.add(messageId);
      this.#usage = addTokens(this.#usage, details?.messages.get(messageId) ?? NO_TOKENS);
    }
    if (block.type === "tool_use") this.#calls += 1;
    if (block.type === "tool_result" && block.isError === true) this.#failures += 1;
    if (block.type === "subagent") {
      this.#calls += 1;
      const name = block.agentId ?? block.toolUseId;
      if (name !== undefined) this.#usage = addTokens(this.#usage, totalOf(name));
    }
  }

  /** Ends the turn and begins the next one; returns the row of the turn, if it had an answer. */
  end(next: Block | undefined): Row | undefined {
    const hasAnswer = this.#messages.size > 0 || this.#calls > 0;
    // Inside of a subagent, its own row has the sum.
    const isShown = hasAnswer && this.#depth === 0 && !(next === undefined && this.#isOpen);
    const row: Row | undefined = isShown
      ? {
          kind: "turn",
          key: rowKey(this.#conversation, `${this.#id ?? ""}#turn${this.#number}`),
          depth: this.#depth,
          conversation: this.#conversation,
          number: Math.max(1, this.#number),
          usage: this.#usage,
          cost: undefined,
          durationMs: between(this.#start, this.#last),
          calls: this.#calls,
          failures: this.#failures,
        }
      : undefined;
    if (next !== undefined) {
      this.#number += 1;
      this.#id = next.id;
      this.#start = next.timestamp;
      this.#last = this.#start;
      this.#usage = NO_TOKENS;
      this.#messages = new Set();
      this.#calls = 0;
      this.#failures = 0;
      this.#isOpen = false;
    }
    return row;
  }
}

function between(start: string | undefined, end: string | undefined): number | undefined {
  const [from, to] = [parseTime(start), parseTime(end)];
  return from === undefined || to === undefined || to < from ? undefined : to - from;
}

/** Makes rows that did not change the same objects as before: those that are not of one block. */
export function keepRows(before: ReadonlyMap<string, Row>, rows: Row[]): Map<string, Row> {
  const kept = new Map<string, Row>();
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at]!;
    if (row.kind === "tool" || row.kind === "block") continue;
    const old = before.get(row.key);
    if (old !== undefined && isSame(old, row)) rows[at] = old;
    kept.set(row.key, rows[at]!);
  }
  return kept;
}

function isSame(one: Row, other: Row): boolean {
  const [first, second] = [one as unknown as Record<string, unknown>, other as unknown as Record<string, unknown>];
  for (const name in second) {
    const [left, right] = [first[name], second[name]];
    if (left === right) continue;
    if (name === "usage" && isSameUsage(left as TokenUsage | undefined, right as TokenUsage | undefined)) continue;
    if (name === "blocks" && isSameList(left as readonly unknown[], right as readonly unknown[])) continue;
    return false;
  }
  return true;
}

function isSameUsage(one: TokenUsage | undefined, other: TokenUsage | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (Object.keys(one) as (keyof TokenUsage)[]).every((name) => one[name] === other[name]);
}

function isSameList(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((it, at) => it === other[at]);
}
