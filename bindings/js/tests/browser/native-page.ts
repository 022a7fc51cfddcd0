// In a page: recorded sessions and generated streams.

import { createInitialConversationState, parseTranscript, reduceSessionEvents, foldRecords, stateHash } from "threadfold";

interface SentSession {
  agent: string;
  session: string;
  isStream: boolean;
  hash: string;
  files: { path: string; content: string }[];
}

async function compare(): Promise<{ sessions: number; streams: number; different: string[] }> {
  const different: string[] = [];
  const sessions = (await (await fetch("/sessions.json")).json()) as SentSession[];
  for (const { agent, session, isStream, hash, files } of sessions) {
    const decoded = files.map(({ path, content }) => ({
      path,
      content: Uint8Array.from(atob(content), (it) => it.charCodeAt(0)),
    }));
    const state = isStream ? foldRecords(agent, [decoded[0]!.content], { session }) : parseTranscript(agent, decoded);
    if (stateHash(state) !== hash) different.push(files[0]!.path);
  }
  const lines = (await (await fetch("/streams.jsonl")).text()).trimEnd().split("\n");
  lines.forEach((line, index) => {
    const { events, steps } = JSON.parse(line);
    if (events.length === 0) return;
    const state = reduceSessionEvents(createInitialConversationState(), events);
    if (stateHash(state) !== steps.at(-1).hash) different.push(`stream ${index}`);
  });
  return { sessions: sessions.length, streams: lines.length, different };
}

Object.assign(globalThis, { compare });
