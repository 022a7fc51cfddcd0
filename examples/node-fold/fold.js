// Prints what an agent did: `node fold.js SESSION.jsonl`, or its live stream from standard input.

import { readFile } from "node:fs/promises";
import { createConverter, createInitialConversationState, detectFormat, parseTranscript, reduceSessionEvents, stateHash } from "threadfold";

const [path] = process.argv.slice(2);

async function readState() {
  if (path !== undefined) {
    const text = await readFile(path, "utf8");
    return parseTranscript(detectFormat(text)?.agent ?? "other", text);
  }
  let state = createInitialConversationState();
  let converter;
  for await (const chunk of process.stdin) {
    converter ??= createConverter(detectFormat(chunk)?.agent ?? "other");
    state = reduceSessionEvents(state, converter.pushText(chunk));
  }
  return reduceSessionEvents(state, converter?.finish() ?? []);
}

const state = await readState();
for (const block of state.blocks) {
  const text = block.content ?? block.output ?? block.toolName ?? "";
  console.log(`${block.type.padEnd(16)} ${(typeof text === "string" ? text : JSON.stringify(text)).slice(0, 90)}`);
}
console.log(`${state.blocks.length} blocks, ${state.subagents.length} subagents, ${stateHash(state).slice(0, 16)}`);
