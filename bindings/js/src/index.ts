// The package with its WebAssembly module inside: importing it is enough.

import "./inline.js";

export * from "./api.js";
export * from "./converters-api.js";
