// A tool call in one line: what kind of thing it did, to what, and how it ended.

import type { JsonValue, PermissionBlock, ToolResultBlock, ToolUseBlock } from "threadfold/slim";
import { firstLine, parseTime } from "../lib/format.js";

export type ToolKind = "shell" | "read" | "edit" | "search" | "web" | "list" | "question" | "other";

export interface ToolSummary {
  readonly kind: ToolKind;
  readonly name: string;
  readonly title: string;
}

type Fields = Readonly<Record<string, JsonValue | undefined>>;

export function fieldsOf(value: JsonValue | undefined): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

export function textOf(fields: Fields, ...names: string[]): string | undefined {
  for (const name of names) {
    const value = fields[name];
    if (typeof value === "string" && value !== "") return value;
    if (Array.isArray(value) && value.length > 0 && value.every((it) => typeof it === "string")) return value.join(" ");
  }
  return undefined;
}

/** The field that says most about a call, by the kind of tool. */
const KINDS: readonly [ToolKind, RegExp, readonly string[]][] = [
  ["shell", /^(bash|shell|exec|exec_command|local_shell|run_command|bashoutput|killshell)/i, ["command", "cmd", "script", "shell_id"]],
  ["edit", /^(edit|multiedit|write|apply_patch|patch|notebookedit|str_replace|create_file)/i, ["file_path", "filePath", "path", "notebook_path"]],
  ["read", /^(read|view|cat|notebookread)/i, ["file_path", "filePath", "path"]],
  ["search", /^(grep|glob|search|find|codesearch|ls|list)/i, ["pattern", "query", "path"]],
  ["web", /^(webfetch|websearch|fetch|web_search)/i, ["url", "query"]],
  ["list", /^(todo|update_plan|task(create|update|list))/i, ["title", "subject"]],
  ["question", /^(askuserquestion|question|exitplanmode)/i, ["question", "plan"]],
];

const USUAL = ["description", "title", "name", "path", "file_path", "filePath", "command", "query", "url", "prompt", "text"];

export function summarizeTool(block: ToolUseBlock): ToolSummary {
  const input = fieldsOf(block.input);
  // The tools of servers are named `mcp__SERVER__TOOL`.
  const name = block.displayName ?? block.toolName.replace(/^mcp__(.+?)__/, "$1: ");
  const [kind, , names] = KINDS.find(([, pattern]) => pattern.test(block.toolName)) ?? (["other", undefined, USUAL] as const);
  const words = textOf(input, ...names) ?? textOf(input, ...USUAL);
  if (kind === "list") return { kind, name, title: words ?? describeTodos(input) };
  if (kind === "question") return { kind, name, title: firstLine(words ?? describeQuestions(input)) };
  const title = words ?? block.description ?? block.inputText ?? firstText(input);
  return { kind, name, title: firstLine(title) };
}

function describeTodos(input: Fields): string {
  const todos = input.todos ?? input.plan;
  if (!Array.isArray(todos)) return "";
  const done = todos.filter((it) => ["completed", "done"].includes(textOf(fieldsOf(it as JsonValue), "status") ?? ""));
  return `${done.length} of ${todos.length} done`;
}

function describeQuestions(input: Fields): string {
  const first = Array.isArray(input.questions) ? (input.questions[0] as JsonValue | undefined) : undefined;
  return textOf(fieldsOf(first), "question") ?? "";
}

function firstText(input: Fields): string {
  const text = Object.values(input).find((it): it is string => typeof it === "string");
  return text ?? "";
}

/** Returns what a person is asked, in words. */
export function questionOf({ question }: PermissionBlock): string {
  if (typeof question === "string") return question;
  return textOf(fieldsOf(question), "question", "title", "message", "tool_name", "permission") ?? "Permission";
}

export type Outcome = "running" | "done" | "failed" | "interrupted" | "waiting" | "unknown";

export function outcomeOf(
  block: ToolUseBlock,
  result: ToolResultBlock | undefined,
  question: PermissionBlock | undefined,
): Outcome {
  if (fieldsOf(block.metadata).unknownOutcome !== undefined && result === undefined) return "unknown";
  if (result?.isError === true || (block.status === "error" && block.interrupted !== true)) return "failed";
  if (result !== undefined) return result.interrupted === true ? "interrupted" : "done";
  if (block.interrupted === true) return "interrupted";
  if (question !== undefined && question.status === "pending") return "waiting";
  return block.status === "complete" ? "done" : "running";
}

export function durationOf(block: ToolUseBlock, result: ToolResultBlock | undefined): number | undefined {
  if (result?.durationMs !== undefined) return result.durationMs;
  const [start, end] = [parseTime(block.timestamp), parseTime(result?.timestamp)];
  return start === undefined || end === undefined || end < start ? undefined : end - start;
}
