// Time travel: a scrubber over the records of a session.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { ConversationState } from "threadfold/slim";
import { useKeys } from "../lib/keys.js";
import { replaceRoute, type SessionRoute } from "../lib/route.js";
import { messageOf, type Server } from "../lib/server.js";
import { History, neighbour } from "../model/history.js";
import { Icon } from "../parts/icon.js";

export interface Past {
  readonly history: History | undefined;
  readonly head: number;
  readonly progress: number;
  readonly error: unknown;
}

/** Reads the past of a session while somebody looks at it. */
export function usePast(server: Server, session: string, isWanted: boolean, seq: number | undefined): Past {
  const [past, setPast] = useState<Past>({ history: undefined, head: 0, progress: 0, error: undefined });
  const history = useMemo(() => new History(server, session), [server, session]);
  const reading = useRef(false);
  const latest = useRef(seq);
  latest.current = seq;
  const needsMore = isWanted && seq !== undefined && seq > past.head;
  useEffect(() => {
    if (!needsMore || reading.current) return;
    reading.current = true;
    const abort = new AbortController();
    const until = latest.current ?? 0;
    let shown = 0;
    const progress = (records: number) => {
      if (performance.now() - shown < 100) return;
      shown = performance.now();
      setPast((before) => ({ ...before, progress: records }));
    };
    history
      .read(until, abort.signal, progress)
      .then(() => setPast({ history, head: history.head, progress: history.head, error: undefined }))
      .catch((error: unknown) => setPast((before) => ({ ...before, error })))
      .finally(() => (reading.current = false));
  }, [needsMore, history, past.head]);
  return past;
}

/** Returns the state at a record, and what the record changed. */
export function usePastState(past: Past, at: number | undefined): { state: ConversationState; changed: ReadonlySet<string> } | undefined {
  const { history, head } = past;
  return useMemo(() => {
    if (history === undefined || at === undefined) return undefined;
    const seq = Math.min(at, head);
    return { state: history.at(seq), changed: history.changedAt(seq) };
  }, [history, head, at]);
}

/** More of them cannot be told apart. */
const MOST_MARKS = 200;

const SPEEDS = [1, 4, 16, 64] as const;

export function Scrubber({ past, route }: { past: Past; route: SessionRoute }) {
  const { history, head } = past;
  const at = Math.min(route.at ?? head, head);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState<number>(4);
  const move = useCallback((seq: number) => replaceRoute({ ...route, at: seq, block: undefined }), [route]);
  const live = useCallback(() => replaceRoute({ ...route, at: undefined }), [route]);
  const step = (sorted: readonly number[], direction: 1 | -1) => {
    setPlaying(false);
    move(neighbour(sorted, at, direction));
  };
  const steps = history?.steps ?? [];
  const blockSteps = history?.blockSteps ?? [];

  useEffect(() => {
    if (!isPlaying || history === undefined) return;
    const timer = setTimeout(() => {
      const next = neighbour(history.steps, at, 1);
      if (next === at) setPlaying(false);
      else move(next);
    }, 1_000 / speed);
    return () => clearTimeout(timer);
  }, [isPlaying, history, at, speed, move]);

  useKeys([
    { keys: ["h", "ArrowLeft"], label: "Back one record", run: () => step(steps, -1) },
    { keys: ["l", "ArrowRight"], label: "Forward one record", run: () => step(steps, 1) },
    { keys: ["[", "Shift+ArrowLeft"], label: "Back one block", run: () => step(blockSteps, -1) },
    { keys: ["]", "Shift+ArrowRight"], label: "Forward one block", run: () => step(blockSteps, 1) },
    {
      keys: ["{"],
      label: "Back to before the compaction",
      run: () => {
        const mark = history?.marks.findLast((it) => it.kind === "context" && it.seq <= at);
        if (mark !== undefined) move(mark.seq - 1);
      },
    },
    { keys: [" "], label: "Play or pause", run: () => setPlaying(!isPlaying) },
    { keys: ["Escape", "L"], label: "Live again", run: live },
  ]);

  if (history === undefined) {
    return (
      <div className="scrubber" role="status">
        {past.error === undefined ? `Reading the past… ${past.progress > 0 ? `${past.progress} records` : ""}` : `The past cannot be read: ${messageOf(past.error)}`}
        <button type="button" className="live-button" onClick={live}>Live</button>
      </div>
    );
  }
  return (
    <section className="scrubber" aria-label="Time travel">
      <div className="scrubber-buttons">
        <button type="button" title="Back one block ([)" aria-label="Back one block" onClick={() => step(blockSteps, -1)}>«</button>
        <button type="button" title="Back one record (h)" aria-label="Back one record" onClick={() => step(steps, -1)}>‹</button>
        <button type="button" title="Play or pause (space)" aria-label={isPlaying ? "Pause" : "Play"} onClick={() => setPlaying(!isPlaying)}>
          <Icon name={isPlaying ? "pause" : "play"} />
        </button>
        <button type="button" title="Forward one record (l)" aria-label="Forward one record" onClick={() => step(steps, 1)}>›</button>
        <button type="button" title="Forward one block (])" aria-label="Forward one block" onClick={() => step(blockSteps, 1)}>»</button>
      </div>
      <div className="track">
        {history.marks.slice(-MOST_MARKS).map((mark, index) => (
          <button
            key={index}
            type="button"
            className={`track-mark is-${mark.kind}`}
            style={{ left: `${(100 * mark.seq) / Math.max(1, head)}%` }}
            title={mark.kind === "context" ? `Before the ${mark.label}` : "Prompt"}
            aria-label={mark.kind === "context" ? `To before the ${mark.label}, record ${mark.seq}` : `To the prompt, record ${mark.seq}`}
            tabIndex={mark.kind === "context" ? 0 : -1}
            onClick={() => {
              setPlaying(false);
              move(mark.kind === "context" ? mark.seq - 1 : mark.seq);
            }}
          />
        ))}
      <input
        type="range"
        min={0}
        max={head}
        step={1}
        value={at}
        aria-label="Record"
        aria-valuetext={`Record ${at} of ${head}`}
        onChange={(event) => {
          setPlaying(false);
          move(Number(event.target.value));
        }}
      />
      </div>
      <output className="scrubber-place">
        <b>{at}</b> <span className="dim">of {head}</span>
      </output>
      <label className="speed">
        <span className="unseen">Speed</span>
        <select value={speed} onChange={(event) => setSpeed(Number(event.target.value))}>
          {SPEEDS.map((it) => (
            <option key={it} value={it}>{it}/s</option>
          ))}
        </select>
      </label>
      <button type="button" className="live-button" onClick={live} title="Live again (Esc)">Live</button>
    </section>
  );
}
