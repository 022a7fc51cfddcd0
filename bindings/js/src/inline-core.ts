// The small WebAssembly module inside the package: the reducer without converters.

import { fromBase64 } from "./base64.js";
import { provideBytes } from "./engine.js";
import { WASM } from "./wasm-core-base64.js";

provideBytes("core", () => fromBase64(WASM));
