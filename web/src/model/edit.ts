// What a call changed in files, as unified diffs: from what the agent reports, or from the call.

import { createTwoFilesPatch, formatPatch } from "diff";
import type { JsonValue, ToolResultBlock, ToolUseBlock } from "threadfold/slim";
import { fieldsOf, textOf } from "./tool.js";

export interface FileEdit {
  readonly path: string;
  readonly patch: string;
  readonly added: number;
  readonly removed: number;
}

interface PatchHunk {
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
  readonly lines: string[];
}

/** Longer texts are not compared: that takes time, and nobody reads it. */
const LONGEST = 400_000;

const edits = new WeakMap<ToolUseBlock, { result: ToolResultBlock | undefined; edits: FileEdit[] }>();

export function editsOf(block: ToolUseBlock, result: ToolResultBlock | undefined): FileEdit[] {
  const known = edits.get(block);
  if (known !== undefined && known.result === result) return known.edits;
  const made = readEdits(block, result);
  edits.set(block, { result, edits: made });
  return made;
}

function readEdits(block: ToolUseBlock, result: ToolResultBlock | undefined): FileEdit[] {
  const input = fieldsOf(block.input);
  const path = textOf(input, "file_path", "filePath", "path", "notebook_path") ?? "";
  const metadata = fieldsOf(result?.metadata);
  const structured = fieldsOf(metadata.structured);
  const hunks = structured.structuredPatch;
  if (Array.isArray(hunks) && hunks.length > 0 && hunks.every(isHunk)) {
    const file = { oldFileName: path, newFileName: path, oldHeader: "", newHeader: "" };
    return counted(path, formatPatch({ ...file, index: path, hunks: hunks as unknown as PatchHunk[] } as never));
  }
  const diff = textOf(metadata, "diff") ?? textOf(structured, "diff");
  if (diff !== undefined && diff.length < LONGEST) return counted(path, diff);
  const patchText = textOf(input, "patchText", "patch", "input");
  if (/apply_patch|^patch$/i.test(block.toolName) && patchText !== undefined) return readPatch(patchText);
  const before = textOf(input, "old_string", "oldString");
  const after = textOf(input, "new_string", "newString");
  if (before !== undefined || after !== undefined) return compared(path, before ?? "", after ?? "");
  if (Array.isArray(input.edits)) {
    return input.edits.flatMap((it) => {
      const edit = fieldsOf(it as JsonValue);
      return compared(path, textOf(edit, "old_string", "oldString") ?? "", textOf(edit, "new_string", "newString") ?? "");
    });
  }
  const content = textOf(input, "content", "file_text");
  const isWrite = /^(write|create)/i.test(block.toolName);
  return isWrite && content !== undefined ? compared(path, textOf(structured, "originalFile") ?? "", content) : [];
}

function isHunk(value: unknown): boolean {
  const hunk = fieldsOf(value as JsonValue);
  const numbers = [hunk.oldStart, hunk.oldLines, hunk.newStart, hunk.newLines];
  return numbers.every((it) => typeof it === "number") && Array.isArray(hunk.lines) && hunk.lines.every((it) => typeof it === "string");
}

function compared(path: string, before: string, after: string): FileEdit[] {
  if (before.length + after.length > LONGEST) return [];
  return counted(path, createTwoFilesPatch(path, path, before, after, "", "", { context: 3 }));
}

/** Reads the format of `apply_patch`: sections by file, whose hunks have no line numbers. */
function readPatch(text: string): FileEdit[] {
  const sections = text.split(/^\*\*\* (?=Add File|Update File|Delete File)/m).slice(1);
  return sections.map((section) => {
    const [head = "", ...lines] = section.split("\n");
    const path = head.replace(/^\w+ File: /, "");
    const isNew = head.startsWith("Add");
    const body = lines.filter((line) => /^[+\- ]/.test(line));
    const count = (kind: RegExp) => body.filter((line) => kind.test(line)).length;
    const [old, fresh] = [count(/^[- ]/), count(/^[+ ]/)];
    const range = `@@ -${isNew ? 0 : 1},${old} +1,${fresh} @@`;
    const patch = `--- ${path}\n+++ ${path}\n${range}\n${body.join("\n")}\n`;
    return { path, patch, added: count(/^\+/), removed: count(/^-/) };
  });
}

function counted(path: string, patch: string): FileEdit[] {
  let [added, removed, isInHunk] = [0, 0, false];
  for (const line of patch.split("\n")) {
    if (line.startsWith("@@")) isInHunk = true;
    else if (isInHunk && line.startsWith("+")) added += 1;
    else if (isInHunk && line.startsWith("-")) removed += 1;
  }
  return added + removed === 0 ? [] : [{ path, patch, added, removed }];
}
