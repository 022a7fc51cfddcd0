// Recorded sessions and generated streams: the package gives what the native crates give.

import { readFileSync } from "node:fs";
import {
  createConverter,
  createInitialConversationState,
  parseTranscript,
  reduceSessionEvent,
  reduceSessionEvents,
  restoreConverter,
  stateHash,
  type SessionEvent,
} from "threadfold";
import { expect, test } from "vitest";

const folder = process.env.THREADFOLD_FIXTURES ?? new URL("../../../target/js-fixtures", import.meta.url).pathname;

function read<T>(name: string): T[] {
  return readFileSync(`${folder}/${name}`, "utf8").trimEnd().split("\n").map((it) => JSON.parse(it) as T);
}

interface RecordedSession {
  name: string;
  agent: string;
  session: string;
  isStream: boolean;
  paths: string[];
  hash: string;
  state: unknown;
}

test("every recorded session, from raw lines", () => {
  const sessions = JSON.parse(readFileSync(`${folder}/sessions.json`, "utf8")) as RecordedSession[];
  for (const { agent, name, paths, isStream, session, hash, state } of sessions) {
    const files = paths.map((path) => ({ path, content: readFileSync(path) }));
    if (!isStream) {
      const parsed = parseTranscript(agent, files);
      expect(stateHash(parsed), name).toBe(hash);
      expect(parsed, name).toEqual(state);
    } else if (files.length === 1) {
      const bytes = files[0]!.content;
      let converter = createConverter(agent, { session });
      let folded = createInitialConversationState();
      for (let start = 0; start < bytes.length; start += 4001) {
        folded = reduceSessionEvents(folded, converter.pushText(bytes.subarray(start, start + 4001)));
        if (start === 0) converter = restoreConverter(converter.serialize());
      }
      folded = reduceSessionEvents(folded, converter.finishText());
      expect(stateHash(folded), name).toBe(hash);
      expect(folded, name).toEqual(state);
    }
  }
  expect(sessions.length).toBeGreaterThan(300);
});

interface GeneratedStream {
  events: SessionEvent[];
  steps: { hash: string; state: unknown }[];
}

test("every generated stream, step by step", () => {
  const streams = read<GeneratedStream>("streams.jsonl");
  expect(streams.length).toBeGreaterThanOrEqual(200);
  streams.forEach(({ events, steps }, at) => {
    // Reading every state, every seventh, or the last one alone must make no difference.
    const stride = [1, 7, Number.MAX_SAFE_INTEGER][at % 3]!;
    let state = createInitialConversationState();
    events.forEach((event, index) => {
      state = reduceSessionEvent(state, event);
      if (index % stride === 0 || index === events.length - 1) {
        expect(state).toEqual(steps[index]!.state);
      }
      expect(stateHash(state)).toBe(steps[index]!.hash);
    });
    const batch = reduceSessionEvents(createInitialConversationState(), events);
    if (events.length > 0) expect(batch).toEqual(steps.at(-1)!.state);
  });
});
