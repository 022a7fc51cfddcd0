// The hooks. They need the reducer alone, so the small module is enough; beside `threadfold`, its
// module is used.

import "./inline-core.js";

export * from "./hooks.js";
