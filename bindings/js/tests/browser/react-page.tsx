// In a page: many blocks, of which one grows.

import { Profiler, StrictMode, useEffect, useReducer } from "react";
import { createRoot } from "react-dom/client";
import {
  type ConversationStore,
  createConversationStore,
  createInitialConversationState,
  engineUsage,
  isConversationEvent,
  reduceSessionEvent,
  reduceSessionEvents,
  restoreState,
  serializeState,
} from "threadfold";
import { ConversationProvider, useBlock, useBlockIds, useConversationState, useSession, useSessions, useSubagent } from "threadfold/react";

const renders = new Map<string, number>();
let commits = 0;

function BlockView({ id }: { id: string }) {
  const block = useBlock(id);
  renders.set(id, (renders.get(id) ?? 0) + 1);
  return <p id={id}>{block !== undefined && "content" in block ? String(block.content).slice(-40) : ""}</p>;
}

function List() {
  const ids = useBlockIds();
  return ids.map((id) => <BlockView key={id} id={id} />);
}

function open(id: string, content = "") {
  return { type: "block:upsert", payload: { block: { id, type: "assistant_text", status: "pending", content } } } as const;
}

let store: ConversationStore;

async function showBlocks(count: number): Promise<void> {
  const events = Array.from({ length: count }, (_, index) => open(`b${index}`, `text ${index}`));
  store = createConversationStore(reduceSessionEvents(createInitialConversationState(), events));
  const root = createRoot(document.getElementById("root")!);
  const page = (
    <ConversationProvider source={store}>
      <Profiler id="list" onRender={() => (commits += 1)}>
        <List />
      </Profiler>
    </ConversationProvider>
  );
  root.render(page);
  while (document.querySelectorAll("p").length < count) await frame();
  renders.clear();
  commits = 0;
}

const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));

async function deltaInto(id: string): Promise<{ rendered: [string, number][]; commits: number; text: string }> {
  store.dispatch({ type: "block:delta", payload: { blockId: id, delta: " grown" } });
  while (renders.size === 0) await frame();
  await frame();
  await frame();
  return { rendered: [...renders], commits, text: document.getElementById(id)!.textContent! };
}

/** Applies so many deltas a second, and returns the p99 of the time between frames. */
async function stream(seconds: number, rate: number): Promise<{ p99: number; frames: number; deltas: number; worst: number }> {
  const times: number[] = [];
  const start = performance.now();
  let deltas = 0;
  let last = await frame();
  while (performance.now() - start < seconds * 1000) {
    const now = await frame();
    times.push(now - last);
    last = now;
    const due = Math.floor(((performance.now() - start) / 1000) * rate);
    for (; deltas < due; deltas += 1) {
      store.dispatch({ type: "block:delta", payload: { blockId: "b9999", delta: `${deltas % 10}` } });
    }
  }
  times.sort((a, b) => a - b);
  return { p99: times[Math.floor(times.length * 0.99)]!, worst: times.at(-1)!, frames: times.length, deltas };
}

const collect = async () => {
  for (let round = 0; round < 5; round += 1) {
    (globalThis as { gc?: () => void }).gc?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

/** Applies events one by one, and returns the heap and the handles that remain. */
async function fold(count: number): Promise<{ heap: number; handles: number; snapshot: string }> {
  let state = createInitialConversationState();
  for (let index = 0; index < count; index += 1) {
    const of = index - (index % 50);
    state = reduceSessionEvent(state, index === of ? open(`m${of}`) : { type: "block:delta", payload: { blockId: `m${of}`, delta: "word " } });
    if (index % 10 === 0) void state.blocks.length;
    if (index % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
  }
  void state.blocks.length;
  await collect();
  const snapshot = serializeState(state);
  Object.assign(globalThis, { held: state });
  await collect();
  return { heap: usedMemory(), handles: engineUsage().states, snapshot };
}

async function restore(snapshot: string): Promise<{ heap: number; handles: number }> {
  const state = restoreState(snapshot);
  void state.blocks.length;
  Object.assign(globalThis, { held: state });
  await collect();
  return { heap: usedMemory(), handles: engineUsage().states };
}

function usedMemory(): number {
  const { usedJSHeapSize } = (performance as unknown as { memory: { usedJSHeapSize: number } }).memory;
  return usedJSHeapSize + engineUsage().bytes;
}

const seen: string[] = [];

function Live({ session }: { session: string }) {
  const { state, status } = useSession({ url: location.origin, token: TOKEN, session });
  const list = useSessions({ url: location.origin, token: TOKEN });
  const same = useConversationState({ url: location.origin, token: TOKEN, session });
  useEffect(() => void seen.push(`${status.type} ${state.blocks.length} ${same.blocks.length} ${list.sessions.length}`));
  return <output>{state.blocks.map((it) => ("content" in it ? String(it.content) : "")).join("|")}</output>;
}

async function* events() {
  yield open("i1", "iterated");
  yield { type: "block:delta", payload: { blockId: "i1", delta: "!" } } as const;
}
const iterated = events();

function Others() {
  const one = useConversationState(iterated);
  const two = useConversationState(dispatching);
  const text = (it: typeof one) => it.blocks.map((block) => ("content" in block ? String(block.content) : "")).join("");
  return <pre>{`${text(one)} ${text(two)}`}</pre>;
}

let stopped = 0;
const dispatching = (dispatch: (event: never) => void) => {
  dispatch(open("d1", "dispatched") as never);
  return () => (stopped += 1);
};

function Sub() {
  return <em>{useSubagent("t1")?.blocks.length ?? "none"}</em>;
}

/** The second program of the older system, as it stands. */
const Older = (() => {
  function useConversationState(sessionId: string) {
    const [state, dispatch] = useReducer(reduceSessionEvent, createInitialConversationState());
    useEffect(() => { socket.on('session:event', (event) => { if (isConversationEvent(event)) dispatch(event); }); }, [sessionId]);
    return state;
  }
  return () => <b>{useConversationState("s").blocks.map((it) => ("content" in it ? String(it.content) : "")).join("|")}</b>;
})();

const listeners = new Set<(event: unknown) => void>();
const socket = {
  on(_: string, listener: (event: any) => void) {
    // StrictMode runs the effect twice, and a socket of the older system has one listener.
    listeners.clear();
    listeners.add(listener);
  },
};

async function older(events: unknown[]): Promise<string> {
  const root = createRoot(document.getElementById("root")!);
  root.render(<StrictMode><Older /></StrictMode>);
  while (listeners.size === 0) await frame();
  for (const event of events) for (const listener of listeners) listener(event);
  await frame();
  await frame();
  const shown = document.querySelector("b")!.textContent!;
  root.unmount();
  return shown;
}

let TOKEN = "";

function showLive(token: string, session: string): () => void {
  TOKEN = token;
  const root = createRoot(document.getElementById("root")!);
  const store = createConversationStore();
  store.dispatch({ type: "subagent:spawned", payload: { toolUseId: "t1", prompt: "p" } });
  root.render(
    <StrictMode>
      <Live session={session} />
      <Others />
      <ConversationProvider source={store}>
        <Sub />
      </ConversationProvider>
    </StrictMode>,
  );
  return () => root.unmount();
}

Object.assign(globalThis, { showBlocks, deltaInto, stream, fold, restore, showLive, older, seen, stops: () => stopped });
