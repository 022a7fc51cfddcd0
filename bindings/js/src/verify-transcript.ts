// Compares the live stream of a session with its transcript.
//
// What it takes to compare is as large as the converters, and few programs compare: it has a module
// of its own. A comparison takes text and gives text, so that module needs no state of the other.

import type { ParityReport } from "./generated/types.js";
import { checkedBy, type EngineExports, engine, readTextOf, startModule, writeBytesTo } from "./engine.js";
import { type AgentName, lengths, packFiles, toBytes, type TranscriptFile } from "./transcript.js";

let supply: (() => BufferSource) | undefined;
let started: EngineExports | undefined;

/** Names the function that has the bytes of the module that compares. */
export function provideVerifier(bytes: () => BufferSource): void {
  supply ??= bytes;
}

function verifier(): EngineExports {
  if (started !== undefined) return started;
  if (supply !== undefined) return (started = startModule(new WebAssembly.Module(supply())));
  const exports = engine();
  if (exports.verify === undefined) {
    throw new Error(
      "the WebAssembly module that was started compares nothing: import `threadfold/verify`, or `init` with `threadfold-verify.wasm`",
    );
  }
  return exports;
}

/** Compares the live stream of a session with its transcript, field by field. */
export function verifyTranscript(
  agent: AgentName,
  stream: string | Uint8Array,
  files: readonly TranscriptFile[],
  session = "",
): ParityReport {
  const module = verifier();
  const [name, id, bytes] = [toBytes(agent), toBytes(session), toBytes(stream)];
  const parts = [lengths(id.length), id, lengths(bytes.length), bytes];
  const length = writeBytesTo(module, name, ...parts, ...packFiles(files));
  checkedBy(module, module.verify(length, name.length));
  return JSON.parse(readTextOf(module)) as ParityReport;
}
