// Frames as text: what a client must know of one without reading all of it.

import type { Frame } from "./generated/types.js";

/** The type and the cursor of a frame, and its text. */
export interface FrameHead {
  readonly type: string;
  readonly cursor: string;
  readonly text: string;
}

// Servers write these fields first. Events and snapshots, which can be long, are read by the engine,
// and not here a second time.
const HEAD = /^\{"type":"(events|snapshot)","sessionId":"(?:[^"\\]|\\.)*","cursor":"([^"\\]*)"/;
const FOLDED = /^\{"type":"snapshot","sessionId":"(?:[^"\\]|\\.)*","cursor":"[^"\\]*","protocol":\d+,"reducer":\d+,"then":"events","snapshot":/;

/** Returns whether a frame is a snapshot that the engine restores, as far as its first fields tell. */
export function isFoldedSnapshot(text: string): boolean {
  return FOLDED.test(text);
}

export function readHead(text: string): FrameHead {
  const [, known, cursor] = HEAD.exec(text) ?? [];
  if (known !== undefined && cursor !== undefined) return { type: known, cursor, text };
  const { type, cursor: found = "" } = JSON.parse(text) as Frame & { cursor?: string };
  return { type, cursor: found, text };
}

/** A position in a log. */
export interface CursorParts {
  readonly log: string;
  readonly seq: number;
}

/** Returns the log, with the generation of its events, and the record of a cursor. */
export function readCursor(cursor: string): CursorParts {
  const end = cursor.lastIndexOf(".");
  return { log: cursor.slice(0, end), seq: Number(cursor.slice(end + 1)) };
}
