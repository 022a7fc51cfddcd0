// Whole sessions from what an agent stored.

import type { ConversationState } from "./generated/types.js";
import { checked, converters, readJson, writeBytes } from "./engine.js";
import { stateOfHandle } from "./state.js";

/** An agent whose records can be read, by its name here or in the older system. */
export type AgentName = "claude" | "claude-code" | "claude-sdk" | "opencode" | "codex" | (string & {});

/** A file of a session. Of its path, only the names of the file and its folders matter. */
export interface TranscriptFile {
  readonly path: string;
  readonly content: string | Uint8Array;
}

/** All transcripts of a session in one object, as the older system combined them. */
export interface CombinedTranscript {
  readonly main: unknown;
  readonly subagents?: readonly { readonly id: string; readonly transcript: unknown }[];
}

const encoder = new TextEncoder();

/** Returns text or bytes as bytes. */
export function toBytes(content: string | Uint8Array): Uint8Array {
  return typeof content === "string" ? encoder.encode(content) : content;
}

/** Returns numbers as the engine reads them. */
export function lengths(...numbers: number[]): Uint8Array {
  const bytes = new Uint8Array(numbers.length * 4);
  const view = new DataView(bytes.buffer);
  numbers.forEach((number, index) => view.setUint32(index * 4, number, true));
  return bytes;
}

/** Returns files as the engine reads them. */
export function packFiles(files: readonly TranscriptFile[]): Uint8Array[] {
  const parts = [lengths(files.length)];
  for (const file of files) {
    const [path, content] = [toBytes(file.path), toBytes(file.content)];
    parts.push(lengths(path.length, content.length), path, content);
  }
  return parts;
}

/**
 * Returns the state of a session from its transcript: the text of its lines, all transcripts
 * combined in one JSON object (or its text), or a list of files.
 */
export function parseTranscript(
  agent: AgentName,
  raw: string | readonly TranscriptFile[] | CombinedTranscript,
): ConversationState {
  const name = toBytes(agent);
  if (Array.isArray(raw)) {
    const length = writeBytes(name, ...packFiles(raw as readonly TranscriptFile[]));
    return stateOfHandle(checked(converters().parse_files(length, name.length)));
  }
  const text = typeof raw === "string" ? raw : JSON.stringify(raw);
  const length = writeBytes(name, toBytes(text));
  return stateOfHandle(checked(converters().parse_text(length, name.length)));
}

/** What an input was recognized as. */
export interface DetectedFormat {
  /** The agent; absent for events of threadfold itself. */
  readonly agent?: string;
  readonly format: string;
}

/** Returns the agent and the format of an input by its first bytes, unless they are unknown. */
export function detectFormat(head: string | Uint8Array): DetectedFormat | undefined {
  const found = checked(converters().detect_format(writeBytes(toBytes(head))));
  return found === 0 ? readJson<DetectedFormat>() : undefined;
}
