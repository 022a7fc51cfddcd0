// The package without its WebAssembly module: `await init(...)` first.

export * from "./api.js";
export * from "./converters-api.js";
export { verifyTranscript } from "./verify-transcript.js";
export { init, type WasmSource } from "./engine.js";
