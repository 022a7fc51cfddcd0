// The WebAssembly module inside the package: nothing to fetch, and nothing for a bundler to find.

import { provideBytes } from "./engine.js";
import { fromBase64 } from "./base64.js";
import { WASM } from "./wasm-base64.js";

provideBytes("full", () => fromBase64(WASM));
