// The list of sessions, kept up to date over both transports.

import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { followSessions, listSessions, type SessionsList } from "../src/sessions.js";
import { TestServer, until } from "./server.js";

const server = new TestServer();
const block = (id: string) => ({ type: "block:upsert", payload: { block: { id, type: "assistant_text", status: "complete", conversationId: "main", content: id } } }) as never;
const title = (text: string) => ({ type: "metadata:update", payload: { metadata: { title: text } } }) as never;

beforeAll(() => server.start());
afterAll(() => server.remove());

test.each(["sse", "websocket"] as const)("new, changed and removed sessions arrive over %s, without another list", async (transport) => {
  let lists = 0;
  const counting: typeof fetch = (input, init) => {
    if (String(input).includes("/v1/sessions?")) lists += 1;
    return fetch(input, init);
  };
  const abort = new AbortController();
  let list: SessionsList | undefined;
  const query = { url: server.url, token: server.token, transport, fetch: counting, WebSocket: WebSocket as never };
  void followSessions(query, (it) => (list = it), abort.signal);
  await until(() => list?.isLoading === false, "the list is read");
  const read = lists;
  const id = `made-${transport}`;
  await server.push(id, [title("First"), block("a")]);
  await until(() => list?.sessions.some((it) => it.id === id && it.title === "First") === true, "it appears");
  await server.push(id, [title("Second"), block("b")]);
  await until(() => list?.sessions.some((it) => it.id === id && it.title === "Second") === true, "it changes");
  expect(lists).toBe(read);
  const listed = await listSessions({ url: server.url, token: server.token });
  expect(list!.sessions.map((it) => it.id)).toEqual(listed.sessions.map((it) => it.id));
  await server.request(`/v1/sessions/${id}`, { method: "DELETE" });
  await until(() => list?.sessions.every((it) => it.id !== id) === true, "it disappears");
  await server.restart();
  await server.push(`after-${transport}`, [block("c")]);
  await until(() => list?.sessions.some((it) => it.id === `after-${transport}`) === true && list.error === undefined, "the list is read again");
  abort.abort();
});

test("a page of the list continues where the one before ended", async () => {
  for (let at = 0; at < 5; at += 1) await server.push(`page-${at}`, [block("x")]);
  const seen = new Set<string>();
  const query = { url: server.url, token: server.token, limit: 2 };
  for (let page = await listSessions(query); ; page = await listSessions({ ...query, after: page.next! })) {
    for (const it of page.sessions) seen.add(it.id);
    if (page.next === undefined) break;
  }
  expect(seen.size).toBe((await listSessions({ url: server.url, token: server.token })).total);
});
