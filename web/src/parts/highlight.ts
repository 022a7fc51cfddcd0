// Colours of code: tokens with the name of a class, never markup. Loaded when code is shown.

import { createHighlighterCore, createCssVariablesTheme, type HighlighterCore, type LanguageInput } from "@shikijs/core";
import { createJavaScriptRegexEngine } from "@shikijs/engine-javascript";

export interface Token {
  readonly text: string;
  readonly kind: string | undefined;
}

const LANGUAGES: Record<string, () => Promise<unknown>> = {
  bash: () => import("@shikijs/langs/bash"),
  c: () => import("@shikijs/langs/c"),
  css: () => import("@shikijs/langs/css"),
  diff: () => import("@shikijs/langs/diff"),
  go: () => import("@shikijs/langs/go"),
  html: () => import("@shikijs/langs/html"),
  java: () => import("@shikijs/langs/java"),
  javascript: () => import("@shikijs/langs/javascript"),
  json: () => import("@shikijs/langs/json"),
  markdown: () => import("@shikijs/langs/markdown"),
  python: () => import("@shikijs/langs/python"),
  rust: () => import("@shikijs/langs/rust"),
  sql: () => import("@shikijs/langs/sql"),
  toml: () => import("@shikijs/langs/toml"),
  tsx: () => import("@shikijs/langs/tsx"),
  yaml: () => import("@shikijs/langs/yaml"),
};

const OTHER_NAMES: Record<string, string> = {
  cjs: "javascript",
  h: "c",
  htm: "html",
  js: "javascript",
  jsonc: "json",
  jsonl: "json",
  jsx: "tsx",
  md: "markdown",
  mjs: "javascript",
  mts: "tsx",
  patch: "diff",
  py: "python",
  rs: "rust",
  sh: "bash",
  shell: "bash",
  ts: "tsx",
  typescript: "tsx",
  yml: "yaml",
  zsh: "bash",
};

const theme = createCssVariablesTheme({ name: "page", variablePrefix: "--code-" });
let highlighter: Promise<HighlighterCore> | undefined;
const loading = new Map<string, Promise<unknown>>();

/** Returns lines of tokens; nothing for a language that is not known. */
export async function highlight(text: string, language: string): Promise<Token[][] | undefined> {
  const name = OTHER_NAMES[language.toLowerCase()] ?? language.toLowerCase();
  const load = LANGUAGES[name];
  if (load === undefined) return undefined;
  highlighter ??= createHighlighterCore({ themes: [theme], langs: [], engine: createJavaScriptRegexEngine({ forgiving: true }) });
  const ready = await highlighter;
  if (!loading.has(name)) loading.set(name, ready.loadLanguage(load as LanguageInput));
  await loading.get(name);
  return ready.codeToTokensBase(text, { lang: name, theme: "page" }).map((line) =>
    line.map(({ content, color }) => ({ text: content, kind: classOf(color) })),
  );
}

/** `var(--code-token-keyword)` is the class `code-keyword`. */
function classOf(color: string | undefined): string | undefined {
  const kind = /--code-token-([a-z-]+)/.exec(color ?? "")?.[1];
  return kind === undefined ? undefined : `code-${kind}`;
}

/** Returns the language of a file by its name. */
export function languageOf(path: string): string | undefined {
  const end = /\.([A-Za-z0-9]+)$/.exec(path)?.[1]?.toLowerCase();
  return end !== undefined && (end in LANGUAGES || end in OTHER_NAMES) ? end : undefined;
}
