// The hooks without the WebAssembly module.

export * from "./hooks.js";
export { init, type WasmSource } from "./engine.js";
