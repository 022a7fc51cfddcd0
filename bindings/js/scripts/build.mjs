// Builds `dist`: the WebAssembly module beside the code and inside it, then the code.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const built = `${root}/../wasm/built`;

rmSync(`${root}/dist`, { recursive: true, force: true });
mkdirSync(`${root}/dist`);
const MODULES = [
  ["threadfold", "wasm-base64"],
  ["threadfold-core", "wasm-core-base64"],
  ["threadfold-verify", "wasm-verify-base64"],
];
for (const [file, module] of MODULES) {
  copyFileSync(`${built}/${file}.wasm`, `${root}/dist/${file}.wasm`);
  const base64 = readFileSync(`${built}/${file}.wasm`).toString("base64");
  // Plain JavaScript: a compiler would read megabytes of text for nothing.
  writeFileSync(`${root}/dist/${module}.js`, `export const WASM = "${base64}";\n`);
}
const typescript = createRequire(import.meta.url).resolve("typescript/package.json");
execFileSync(process.execPath, [typescript.replace("package.json", "bin/tsc"), "-p", root], {
  stdio: "inherit",
});
