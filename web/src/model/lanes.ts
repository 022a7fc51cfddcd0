// A session over time: a lane for each conversation, with its turns, calls and what they took.

import type { Block, ConversationState, TokenUsage } from "threadfold/slim";
import { formatDuration, parseTime, totalTokens } from "../lib/format.js";
import { type Details, NO_TOKENS, shareOfCost } from "./details.js";
import { calledBy, conversationOf, indexOf, nameOf } from "./subagents.js";
import { durationOf, outcomeOf, summarizeTool } from "./tool.js";

export interface Bar {
  readonly kind: "turn" | "tool" | "subagent";
  readonly start: number;
  readonly end: number;
  readonly label: string;
  readonly isFailed: boolean;
  readonly isRunning: boolean;
  readonly conversation: string;
  readonly block: string;
  /** Below which others of its lane it is drawn, because they overlap. */
  readonly row: number;
}

export interface Lane {
  readonly conversation: string;
  readonly name: string;
  readonly depth: number;
  readonly bars: readonly Bar[];
  /** How many rows its bars need, at least one. */
  readonly rows: number;
  readonly usage: TokenUsage;
  readonly cost: number | undefined;
  readonly durationMs: number;
}

export interface UsagePoint {
  readonly time: number;
  readonly usage: TokenUsage;
  readonly cost: number | undefined;
  readonly conversation: string;
  readonly block: string;
}

export interface Lanes {
  readonly lanes: readonly Lane[];
  readonly start: number;
  readonly end: number;
  /** The tokens of each message, in the order of time. */
  readonly points: readonly UsagePoint[];
}

export function buildLanes(state: ConversationState, details: Details | undefined): Lanes {
  const lanes: Lane[] = [];
  const points: UsagePoint[] = [];
  const index = indexOf(state);
  const seen = new Set<string>();
  const add = (conversation: string, name: string, blocks: readonly Block[], depth: number) => {
    if (seen.has(conversation)) return;
    seen.add(conversation);
    const bars = barsOf(conversation, blocks);
    addPoints(points, conversation, blocks, details);
    const usage = details?.conversations.get(conversation) ?? NO_TOKENS;
    const cost = details === undefined ? undefined : shareOfCost(details, usage);
    const [start, end] = extent(bars);
    const rows = 1 + bars.reduce((most, bar) => Math.max(most, bar.row), 0);
    lanes.push({ conversation, name, depth, bars, rows, usage, cost, durationMs: Math.max(0, end - start) });
    for (const block of blocks) {
      const subagent = block.type === "subagent" ? calledBy(index, block) : undefined;
      if (subagent === undefined || block.type !== "subagent") continue;
      add(conversationOf(subagent), block.description ?? block.name, subagent.blocks, depth + 1);
    }
  };
  add("main", "main", state.blocks, 0);
  for (const subagent of state.subagents) {
    if (subagent.internal !== true) add(conversationOf(subagent), nameOf(state, subagent), subagent.blocks, 1);
  }
  points.sort((one, other) => one.time - other.time);
  const [start, end] = extent(lanes.flatMap((lane) => [...lane.bars]));
  return { lanes, start, end: Math.max(end, start + 1), points };
}

function extent(bars: readonly Bar[]): [number, number] {
  let [start, end] = [Infinity, -Infinity];
  for (const bar of bars) {
    start = Math.min(start, bar.start);
    end = Math.max(end, bar.end);
  }
  return start === Infinity ? [0, 0] : [start, end];
}

/** More rows than this say nothing. */
const MOST_ROWS = 5;

/** Puts bars that overlap below each other. */
function stack(bars: readonly FlatBar[]): Bar[] {
  const ends: number[] = [];
  const place = (bar: FlatBar): number => {
    if (bar.kind === "turn") return 0;
    const end = bar.isRunning ? Infinity : bar.end;
    const free = ends.findIndex((it) => it <= bar.start);
    const row = free >= 0 ? free : Math.min(ends.length, MOST_ROWS - 1);
    ends[row] = Math.max(end, ends[row] ?? 0);
    return row;
  };
  const sorted = [...bars].sort((one, other) => one.start - other.start);
  return sorted.map((bar) => ({ ...bar, row: place(bar) }));
}

type FlatBar = Omit<Bar, "row">;

function barsOf(conversation: string, blocks: readonly Block[]): Bar[] {
  const results = new Map(blocks.flatMap((it) => (it.type === "tool_result" ? [[it.toolUseId, it] as const] : [])));
  const bars: FlatBar[] = [];
  let turn: { start: number; end: number; label: string; block: string; isFailed: boolean } | undefined;
  const endTurn = () => {
    if (turn !== undefined && turn.end >= turn.start) {
      bars.push({ kind: "turn", isRunning: false, conversation, ...turn });
    }
  };
  for (const block of blocks) {
    const time = parseTime(block.timestamp);
    if (time === undefined) continue;
    if (block.type === "user_message") {
      endTurn();
      const text = typeof block.content === "string" ? block.content : "";
      turn = { start: time, end: time, label: text.slice(0, 120), block: block.id, isFailed: false };
    } else if (turn !== undefined) {
      turn.end = Math.max(turn.end, time);
      if (block.type === "error") turn.isFailed = true;
    }
    if (block.type === "tool_use") {
      const result = results.get(block.toolUseId);
      const { name, title } = summarizeTool(block);
      const outcome = outcomeOf(block, result, undefined);
      const end = time + (durationOf(block, result) ?? 0);
      const bar = { start: time, end, label: `${name} ${title}`, isFailed: outcome === "failed", isRunning: outcome === "running" };
      bars.push({ kind: "tool", conversation, block: block.id, ...bar });
    } else if (block.type === "subagent") {
      const end = time + (block.durationMs ?? 0);
      const label = `${block.name}: ${block.description ?? ""}`;
      const isOpen = block.status === "running" || block.status === "pending";
      bars.push({ kind: "subagent", conversation, block: block.id, start: time, end, label, isFailed: block.status === "error", isRunning: isOpen });
    }
  }
  endTurn();
  return stack(bars);
}

function addPoints(points: UsagePoint[], conversation: string, blocks: readonly Block[], details: Details | undefined): void {
  if (details === undefined) return;
  const seen = new Set<string>();
  for (const block of blocks) {
    const { messageId } = block;
    const time = parseTime(block.timestamp);
    if (messageId === undefined || time === undefined || seen.has(messageId)) continue;
    seen.add(messageId);
    const usage = details.messages.get(messageId);
    if (usage === undefined) continue;
    points.push({ time, usage, cost: shareOfCost(details, usage), conversation, block: block.id });
  }
}

export interface Ranked {
  readonly label: string;
  readonly value: string;
  readonly conversation: string;
  readonly block: string | undefined;
}

/** Returns the calls that took longest. */
export function longestOf({ lanes }: Lanes, count = 5): Ranked[] {
  const bars = lanes.flatMap((lane) => lane.bars.filter((bar) => bar.kind !== "turn" && bar.end > bar.start));
  bars.sort((one, other) => other.end - other.start - (one.end - one.start));
  return bars.slice(0, count).map((bar) => ({
    label: bar.label,
    value: formatDuration(bar.end - bar.start),
    conversation: bar.conversation,
    block: bar.block,
  }));
}

/** Returns the conversations that used most, the main one among them. */
export function costliestOf({ lanes }: Lanes, count = 5): { lane: Lane; tokens: number }[] {
  const used = lanes.map((lane) => ({ lane, tokens: totalTokens(lane.usage) })).filter((it) => it.tokens > 0);
  const weight = (it: { lane: Lane; tokens: number }) => it.lane.cost ?? it.tokens;
  return used.sort((one, other) => weight(other) - weight(one)).slice(0, count);
}

