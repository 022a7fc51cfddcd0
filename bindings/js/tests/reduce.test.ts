import {
  createInitialConversationState,
  type ConversationState,
  type EventAnomaly,
  findBlock,
  findSubagent,
  isConversationEvent,
  isConversationState,
  reduceSessionEvent,
  reduceSessionEvents,
  restoreState,
  serializeState,
  stateHash,
  statesEqual,
} from "threadfold";
import { describe, expect, test } from "vitest";
import { delta, text } from "./events.js";

const start = () =>
  reduceSessionEvents(createInitialConversationState(), [text("a", "one"), text("b", "two"), text("c")]);

describe("a state", () => {
  test("is plain data", () => {
    const state = start();
    expect(Object.getPrototypeOf(state)).toBe(Object.prototype);
    expect(Object.keys(state)).toEqual(["blocks", "subagents"]);
    expect(Array.isArray(state.blocks)).toBe(true);
    expect(JSON.parse(JSON.stringify(state))).toEqual({ blocks: state.blocks, subagents: [] });
  });

  test("shares every block that did not change with the next one", () => {
    const before = start();
    const after = reduceSessionEvent(before, delta("b", "!"));
    expect(after.blocks.map((block, index) => block === before.blocks[index])).toEqual([true, false, true]);
    expect(after.blocks[1]).toMatchObject({ content: "two!" });
    expect(before.blocks[1]).toMatchObject({ content: "two" });
    expect(after.subagents).toBe(before.subagents);
  });

  test("shares them in whatever order the states are read", () => {
    const states: ConversationState[] = [start()];
    for (let index = 0; index < 40; index += 1) {
      states.push(reduceSessionEvent(states.at(-1)!, delta("abc"[index % 3]!, `${index}`)));
    }
    const last = states.at(-1)!.blocks;
    const middle = states[20]!.blocks;
    const first = states[0]!.blocks;
    expect(states[21]!.blocks.filter((block, index) => block === middle[index])).toHaveLength(2);
    expect(states[39]!.blocks.filter((block, index) => block === last[index])).toHaveLength(2);
    expect(states[1]!.blocks.filter((block, index) => block === first[index])).toHaveLength(2);
  });

  test("shares them between states that are read one by one and in one go", () => {
    for (const order of [[0, 1, 2, 3, 4], [4, 0, 1, 2, 3], [2, 4, 3, 1, 0], [3, 0, 4, 1, 2]]) {
      const states: ConversationState[] = [start()];
      for (const [id, more] of [["a", "1"], ["c", "2"], ["c", "3"], ["b", "4"]] as const) {
        states.push(reduceSessionEvent(states.at(-1)!, delta(id, more)));
      }
      const before = states.at(-1)!;
      const again = reduceSessionEvent(states[2]!, delta("c", "3"));
      const lists = order.map((at) => [at, states[at]!.blocks] as const);
      for (const [at, blocks] of lists) {
        expect(states[at]!.blocks).toBe(blocks);
        expect(Object.isFrozen(blocks) && blocks.every((it) => Object.isFrozen(it))).toBe(true);
      }
      expect(before.blocks[0]).toBe(states[1]!.blocks[0]);
      expect(before.blocks[2]).toBe(states[3]!.blocks[2]);
      expect(states[2]!.blocks[2]).not.toBe(states[3]!.blocks[2]);
      expect(before.blocks).toEqual(restoreState(serializeState(before)).blocks);
      expect(again.blocks).toEqual(states[3]!.blocks);
    }
  });

  test("shares subagents and lists that did not change", () => {
    const spawn = { type: "subagent:spawned", toolUseId: "t1", prompt: "Look", subagentType: "x" } as const;
    const one = reduceSessionEvents(start(), [spawn, text("s1", "hm", "t1")]);
    const two = reduceSessionEvent(one, delta("a", "."));
    const three = reduceSessionEvent(two, delta("s1", ".", "t1"));
    expect(three.blocks).toBe(two.blocks);
    expect(two.subagents[0]).toBe(one.subagents[0]);
    expect(three.subagents[0]).not.toBe(two.subagents[0]);
    expect(findSubagent(three, "t1")).toBe(three.subagents[0]);
    expect(findBlock(three, "s1")).toBe(three.subagents[0]!.blocks[0]);
    expect(findBlock(three, "a")).toBe(three.blocks[0]);
    expect(findBlock(three, "a", "t1")).toBeUndefined();
  });

  test("is frozen in development", () => {
    const state = start();
    expect(() => {
      (state as { blocks: unknown }).blocks = [];
    }).toThrow(TypeError);
    expect(Object.isFrozen(state.blocks)).toBe(true);
    expect(Object.isFrozen(state.blocks[0])).toBe(true);
  });

  test("is read after every event in a time that hardly depends on its length", () => {
    const events = Array.from({ length: 10_000 }, (_, index) => text(`b${index}`, ""));
    let state = reduceSessionEvents(createInitialConversationState(), events);
    const read = (rounds: number): number => {
      const before = process.cpuUsage();
      for (let round = 0; round < rounds; round += 1) {
        state = reduceSessionEvent(state, delta("b9999", "x"));
        if (state.blocks.length !== 10_000) throw new Error("a block is missing");
      }
      const { user, system } = process.cpuUsage(before);
      return (user + system) / rounds;
    };
    read(500);
    // Some 6 µs; looking at every block, or copying them one by one, takes over 200.
    expect(read(500)).toBeLessThan(100);
  });

  test("stays valid, however many come after it", () => {
    const old = start();
    const hash = stateHash(old);
    let state = old;
    for (let index = 0; index < 500; index += 1) state = reduceSessionEvent(state, delta("c", "x"));
    expect(stateHash(old)).toBe(hash);
    const branch = reduceSessionEvent(old, delta("c", "other"));
    expect(branch.blocks[2]).toMatchObject({ content: "other" });
    expect(state.blocks[2]).toMatchObject({ content: "x".repeat(500) });
    expect(branch.blocks[0]).toBe(state.blocks[0]);
  });
});

describe("a copy of a state is refused, with the way to carry one", () => {
  const state = start();
  const copies: [string, unknown][] = [
    ["JSON", JSON.parse(JSON.stringify(state))],
    ["structuredClone", structuredClone(state)],
    ["spread", { ...state }],
    ["Object.assign", Object.assign({}, state)],
    ["nothing", undefined],
    ["an object", { blocks: [], subagents: [] }],
  ];
  test.each(copies)("%s", (_, copy) => {
    expect(isConversationState(copy)).toBe(false);
    expect(() => reduceSessionEvent(copy as ConversationState, delta("a", "x"))).toThrow(
      /serializeState.*restoreState/,
    );
  });
});

test("a restored state continues like the one that was serialized", () => {
  const alias = { type: "subagent:spawned", payload: { toolUseId: "t1", agentId: "A", prompt: "p" } } as const;
  const state = reduceSessionEvents(start(), [alias, text("s1", "hm", "agent-A")]);
  const restored = restoreState(serializeState(state));
  expect(statesEqual(state, restored)).toBe(true);
  expect(restored).toEqual(state);
  expect(serializeState(restored)).toBe(serializeState(state));
  const next = [delta("s1", "m", "t1"), { type: "session:idle", conversationId: "main" } as const];
  expect(stateHash(reduceSessionEvents(restored, next))).toBe(stateHash(reduceSessionEvents(state, next)));
  expect(() => restoreState("{}")).toThrow(/serializeState/);
  expect(() => restoreState(state as unknown as string)).toThrow(TypeError);
});

describe("an event that does not fit", () => {
  const cyclic: Record<string, unknown> = { type: "block:upsert" };
  cyclic.payload = cyclic;
  const odd: unknown[] = [
    undefined,
    null,
    7,
    "block:delta",
    [],
    {},
    { type: 7 },
    { type: "new:type", payload: { a: 1 } },
    { type: "block:upsert", payload: { block: { id: 7 } } },
    { type: "block:delta", payload: { blockId: "nobody", delta: "x" } },
    { type: "block:delta", payload: { blockId: "a", delta: "\ud800" } },
    { type: "block:delta", payload: { blockId: "a", delta: 1n } },
    cyclic,
    { type: "block:delta", toJSON: () => { throw new Error("no"); } },
  ];
  test.each(odd.map((event, index) => [index, event]))("%i comes back with the same state", (_, event) => {
    const state = start();
    expect(reduceSessionEvent(state, event as never)).toBe(state);
  });

  test("is reported by the batch, and the others are applied", () => {
    const anomalies: EventAnomaly[] = [];
    const state = reduceSessionEvents(
      start(),
      [delta("a", "!"), cyclic as never, delta("nobody", "x"), delta("b", "!")],
      { onAnomaly: (it) => anomalies.push(it) },
    );
    expect(state.blocks.map((it) => "content" in it && it.content)).toEqual(["one!", "two!", ""]);
    expect(anomalies.map((it) => [it.index, it.ignored])).toEqual([[1, true], [2, true]]);
    expect(anomalies[1]!.message).toContain("nobody");
  });
});

test("events of other slices leave the same state", () => {
  const state = start();
  const metadata = { type: "metadata:update", payload: { metadata: { title: "T" } } } as const;
  expect(reduceSessionEvent(state, metadata)).toBe(state);
  expect(isConversationEvent(metadata)).toBe(false);
  expect(isConversationEvent(delta("a", "x"))).toBe(true);
  expect(isConversationEvent(null)).toBe(false);
});

test("a second source that confirms a block gives another state that shows the same", () => {
  const state = start();
  const confirmed = reduceSessionEvent(state, {
    ...text("a", "one"),
    context: { conversationId: "main", source: { kind: "transcript" } },
  } as never);
  expect(stateHash(confirmed)).toBe(stateHash(state));
  // Later events depend on it: the transcript outranks the stream.
  const stream = { type: "block:upsert", payload: { block: { id: "a", type: "assistant_text", status: "complete", content: "later" } } } as const;
  expect(reduceSessionEvent(state, stream).blocks[0]).toMatchObject({ content: "later" });
  expect(reduceSessionEvent(confirmed, stream).blocks[0]).toMatchObject({ content: "one" });
});

test("text of events is applied like the events", () => {
  const events = [delta("a", "é😀"), text("d", "neu"), delta("d", "\n")];
  const expected = stateHash(reduceSessionEvents(start(), events));
  expect(stateHash(reduceSessionEvents(start(), JSON.stringify(events)))).toBe(expected);
  expect(stateHash(reduceSessionEvents(start(), events.map((it) => JSON.stringify(it)).join("\n")))).toBe(expected);
  expect(stateHash(events.reduce(reduceSessionEvent, start()))).toBe(expected);
});

test("a state that nobody reads for thousands of steps is right when it is read", () => {
  let state = start();
  for (let index = 0; index < 3000; index += 1) {
    state = reduceSessionEvent(state, index % 100 === 0 ? text(`n${index}`, "n") : delta(`n${index - (index % 100)}`, "x"));
  }
  expect(state.blocks).toHaveLength(33);
  expect(state.blocks.slice(3).every((it) => "content" in it && it.content === `n${"x".repeat(99)}`)).toBe(true);
  expect(restoreState(serializeState(state))).toEqual(state);
});
