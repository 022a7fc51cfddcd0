// The comparison of a stream with its transcript, with a WebAssembly module of its own.

import "./inline-verify.js";

export type { AgentName, TranscriptFile } from "./transcript.js";
export type * from "./generated/types.js";
export { verifyTranscript } from "./verify-transcript.js";
