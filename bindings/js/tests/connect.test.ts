import { connect, type Connection, type ConnectOptions, restoreState, serializeState, stateHash } from "threadfold";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { delta, text } from "./events.js";
import { TestServer, until } from "./server.js";

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.remove());

const transports = ["sse", "websocket"] as const;
const open: Connection[] = [];

function follow(session: string, more: Partial<ConnectOptions> = {}): Connection {
  const { url, token } = server;
  const connection = connect({ url, token, session, WebSocket: WebSocket as never, ...more });
  open.push(connection);
  return connection;
}
afterAll(() => open.forEach((it) => it.close()));

const seqOf = (connection: Connection) => Number(connection.cursor?.split(".").at(-1) ?? -1);
const contentOf = (connection: Connection) =>
  connection.state.blocks.map((it) => ("content" in it ? it.content : ""));

describe.each(transports)("over %s", (transport) => {
  test("a session is followed live, and blocks that do not change stay the same objects", async () => {
    const session = `live-${transport}`;
    await server.push(session, [text("a", "one"), text("b", "two")]);
    const connection = follow(session, { transport });
    await until(() => connection.state.blocks.length === 2, "the snapshot");
    expect(connection.status).toEqual({ type: "live" });
    const before = connection.state;
    await server.push(session, [delta("b", "!")]);
    await until(() => contentOf(connection)[1] === "two!", "the delta");
    expect(connection.state.blocks[0]).toBe(before.blocks[0]);
    expect(stateHash(connection.state)).toBe(await server.hash(session, seqOf(connection)));
    connection.close();
    await connection.closed;
    expect(connection.status).toMatchObject({ type: "ended" });
  });

  test("a stored cursor is resumed without a snapshot", async () => {
    const session = `resume-${transport}`;
    await server.push(session, [text("a", "one")]);
    const first = follow(session, { transport });
    await until(() => first.state.blocks.length === 1, "the snapshot");
    const stored = [serializeState(first.state), first.cursor!] as const;
    first.close();
    await server.push(session, [delta("a", "!")]);
    const second = follow(session, { transport, state: restoreState(stored[0]), after: stored[1] });
    const frames: string[] = [];
    second.addEventListener("frame", (event) => frames.push((event as CustomEvent<{ type: string }>).detail.type));
    await until(() => contentOf(second)[0] === "one!", "the delta");
    expect(frames[0]).toBe("resume");
    expect(frames).not.toContain("snapshot");
  });

  test("a gap is reported, and a snapshot settles it", async () => {
    const session = `gap-${transport}`;
    await server.push(session, [text("a", "one")]);
    const other = follow(`live-${transport}`, { transport });
    await until(() => other.cursor !== undefined, "another cursor");
    const connection = follow(session, { transport, after: other.cursor!, state: other.state });
    const gaps: string[] = [];
    connection.addEventListener("gap", (event) => gaps.push((event as CustomEvent<string>).detail));
    await until(() => connection.state.blocks.length === 1, "the snapshot");
    expect(gaps[0]).toContain("another log");
    expect(connection.gaps).toBe(1);
  });

  test("disconnects and restarts lose nothing", async () => {
    const session = `soak-${transport}`;
    const count = Number(process.env.THREADFOLD_SOAK_DISCONNECTS ?? 40);
    const restartEvery = Math.max(10, Math.floor(count / 20));
    await server.push(session, [text("a")]);
    const connection = follow(session, { transport });
    let seed = 16;
    const random = (most: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
    let checked = 0;
    for (let round = 0; round < count; round += 1) {
      const events = Array.from({ length: 1 + random(4) }, (_, index) =>
        random(5) === 0 ? text(`n${round}.${index}`, "new") : delta("a", `${round} `),
      );
      const pushed = server.push(session, events);
      if (random(2) === 0) await pushed;
      if (round % restartEvery === restartEvery - 1) {
        await pushed;
        await server.restart(random(2) === 0 ? "SIGTERM" : "SIGKILL");
      } else {
        // At any moment while it receives, but not while it waits to connect.
        await until(() => connection.status.type === "live", `round ${round}: live`);
        connection.disconnect();
      }
      await pushed;
      if (random(3) > 0 && round < count - 1) continue;
      const status = (await (await server.request(`/v1/sessions/${session}`)).json()) as { seq: number };
      await until(() => seqOf(connection) >= status.seq, `round ${round}: ${JSON.stringify(connection.status)}`);
      const [seq, hash] = [seqOf(connection), stateHash(connection.state)];
      expect(await server.hash(session, seq), `round ${round}`).toBe(hash);
      checked += 1;
    }
    expect(checked).toBeGreaterThan(count / 5);
    expect(connection.connects).toBeGreaterThan(count * 0.8);
    console.log(`${transport}: ${count} disconnects, ${connection.connects} connects, ${checked} hashes equal, ${connection.gaps} gaps`);
  }, 1_800_000);
});

test("it is an async iterable that coalesces states, and an abort ends it", async () => {
  await server.push("iterated", [text("a")]);
  const abort = new AbortController();
  const connection = follow("iterated", { signal: abort.signal });
  const seen: string[] = [];
  const done = (async () => {
    for await (const update of connection) {
      seen.push(update.type);
      if (seen.length === 1) await server.push("iterated", [delta("a", "x"), delta("a", "y")]);
      else abort.abort();
    }
  })();
  await done;
  expect(seen.slice(0, 2)).toEqual(["state", "state"]);
  expect(connection.status).toMatchObject({ type: "ended", reason: "closed" });
});

test("changes are handed on as they are", async () => {
  await server.push("changes", [text("a")]);
  const connection = follow("changes", { view: "changes" });
  const frames: string[] = [];
  for await (const update of connection) {
    if (update.type !== "changes") continue;
    frames.push(update.frame.type);
    if (frames.length === 1) await server.push("changes", [delta("a", "x")]);
    else break;
  }
  expect(frames).toEqual(["snapshot", "changes"]);
});

test("what another attempt cannot change ends the connection with its error", async () => {
  const wrong = follow("live-sse", { token: "wrong" });
  await expect((async () => { for await (const _ of wrong) { /* nothing comes */ } })()).rejects.toThrow();
  expect(wrong.status).toMatchObject({ type: "ended", error: { status: 401 } });
  const missing = follow("no-such-session");
  await missing.closed;
  expect(missing.status).toMatchObject({ type: "ended", error: { status: 404 } });
  expect(() => follow("x", { after: "l.1.1" })).toThrow(/state/);
});
