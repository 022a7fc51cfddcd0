// Puts the built page where the server embeds it: each file compressed once.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

/** Bytes, compressed: all that is embedded, and what the first page needs without its module. */
const MOST_IN_ALL = 1_500_000;
const MOST_AT_FIRST = 350_000;

const root = fileURLToPath(new URL("..", import.meta.url));
const from = join(root, "dist");
const to = join(root, "../crates/threadfold-server/assets");

rmSync(to, { recursive: true, force: true });
let all = 0;
let first = 0;
const page = readFileSync(join(from, "index.html"), "utf8");
for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const name = join(entry.parentPath, entry.name).slice(from.length + 1);
  const compressed = gzipSync(readFileSync(join(from, name)), { level: 9 });
  all += compressed.length;
  if (name === "index.html" || page.includes(name)) first += compressed.length;
  mkdirSync(dirname(join(to, name)), { recursive: true });
  writeFileSync(join(to, `${name}.gz`), compressed);
}
console.log(`web: ${Math.round(all / 1000)} KB in all, ${Math.round(first / 1000)} KB for the first page without its module`);
if (all > MOST_IN_ALL || first > MOST_AT_FIRST) {
  console.error(`web: the page is too large: at most ${MOST_IN_ALL} in all, and ${MOST_AT_FIRST} at first`);
  process.exit(1);
}
