// The package without converters, with a smaller WebAssembly module inside.

import "./inline-core.js";

export * from "./api.js";
