// The WebAssembly module that compares, inside the package.

import { fromBase64 } from "./base64.js";
import { provideVerifier } from "./verify-transcript.js";
import { WASM } from "./wasm-verify-base64.js";

provideVerifier(() => fromBase64(WASM));
