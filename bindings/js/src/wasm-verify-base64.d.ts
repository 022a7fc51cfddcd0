// Written by `scripts/build.mjs`.

/** The WebAssembly module in base64. */
export const WASM: string;
