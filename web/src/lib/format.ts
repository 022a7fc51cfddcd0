// Numbers and times as people read them.

import type { TokenUsage } from "threadfold/slim";

export function formatCount(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 10_000) return `${(value / 1_000).toFixed(1)}k`;
  if (value < 1_000_000) return `${Math.round(value / 1_000)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function formatCost(dollars: number): string {
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? "<$0.01" : `$${dollars.toFixed(2)}`;
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = milliseconds / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 < 1 ? `${minutes} min` : `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function totalTokens(usage: TokenUsage): number {
  const { inputTokens, outputTokens, cacheReadTokens, cacheCreationTokens } = usage;
  return inputTokens + outputTokens + cacheReadTokens + cacheCreationTokens;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

export function formatClock(time: number): string {
  return clock.format(time);
}

export function formatExact(time: number): string {
  return exact.format(time);
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function formatAgo(time: number, now = Date.now()): string {
  const passed = now - time;
  if (passed < MINUTE) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  if (passed < 7 * DAY) return `${Math.floor(passed / DAY)} d ago`;
  return new Date(time).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

/** Returns the name of a day, for a heading. */
export function formatDay(time: number, now = Date.now()): string {
  const start = new Date(now).setHours(0, 0, 0, 0);
  if (time >= start) return "Today";
  if (time >= start - DAY) return "Yesterday";
  return day.format(time);
}

/** Returns the time of a timestamp, if it is one. */
export function parseTime(timestamp: string | null | undefined): number | undefined {
  if (timestamp === null || timestamp === undefined) return undefined;
  const time = Date.parse(timestamp);
  return Number.isNaN(time) ? undefined : time;
}

export function firstLine(text: string, most = 240): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
