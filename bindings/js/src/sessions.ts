// The list of a server's sessions, kept up to date.

import type { CatalogRow, SummaryFrame, UnreadReport } from "./generated/types.js";
import type { SessionsPage, SessionSummary } from "./client-types.js";
import { readEvents } from "./server-sent-events.js";
import { request, type ServerAddress, subscribe, type WebSocketClass } from "./transports.js";

/** Which sessions are listed. */
export interface SessionsQuery extends ServerAddress {
  readonly agent?: string;
  readonly project?: string;
  readonly text?: string;
  readonly live?: boolean;
  /** How many at most; all, if absent. */
  readonly limit?: number;
  /** `sse` (the default) or `websocket`. A browser has few connections for the former. */
  readonly transport?: "sse" | "websocket";
  /** The class of WebSockets, where there is no global one. */
  readonly WebSocket?: WebSocketClass;
}

/** The sessions, and how the list is. */
export interface SessionsList {
  readonly sessions: readonly SessionSummary[];
  readonly isLoading: boolean;
  /** The server has looked for all sessions of its machine. */
  readonly isComplete: boolean;
  /** What the server found and cannot read. */
  readonly unread: readonly UnreadReport[];
  /** Why the list is not kept up to date now. */
  readonly error: unknown;
}

/** The list before anything is known. */
export const NO_SESSIONS: SessionsList = {
  sessions: [],
  isLoading: true,
  isComplete: false,
  unread: [],
  error: undefined,
};

/** How many sessions a server lists in one answer at most. */
const LONGEST_PAGE = 1_000;

/** Returns one page of a server's sessions. */
export async function listSessions(
  query: SessionsQuery & { readonly after?: string },
  signal?: AbortSignal,
): Promise<SessionsPage> {
  const parameters = new URLSearchParams();
  for (const name of ["agent", "project", "text", "live", "limit", "after"] as const) {
    const value = query[name];
    if (value !== undefined) parameters.set(name, String(value));
  }
  const response = await request(query, `/v1/sessions?${parameters.toString()}`, signal ? { signal } : {});
  return (await response.json()) as SessionsPage;
}

/** Returns all sessions of a server that a query is for. */
async function listAll(query: SessionsQuery, signal: AbortSignal): Promise<SessionsList> {
  const sessions: SessionSummary[] = [];
  const most = query.limit ?? Infinity;
  let after: { after?: string } = {};
  for (;;) {
    const limit = Math.min(LONGEST_PAGE, most - sessions.length);
    const page = await listSessions({ ...query, limit, ...after }, signal);
    sessions.push(...page.sessions);
    if (page.next === undefined || sessions.length >= most) {
      const { isComplete, unread = [] } = page;
      return { sessions, isLoading: false, isComplete, unread, error: undefined };
    }
    after = { after: page.next };
  }
}

/** Calls `update` with the list whenever it changes, until it is aborted. */
export async function followSessions(
  query: SessionsQuery,
  update: (list: SessionsList) => void,
  signal: AbortSignal,
): Promise<void> {
  const { agent, project, text, live, limit } = query;
  // The server knows which sessions a filter is for.
  const isFiltered = [agent, project, text, live, limit].some((it) => it !== undefined);
  let list = NO_SESSIONS;
  for (let pause = 50; !signal.aborted; pause = Math.min(pause * 2, 5_000)) {
    try {
      for await (const texts of summaryFrames(query, signal)) {
        pause = 50;
        const frames = texts.map((it) => JSON.parse(it) as SummaryFrame);
        const changes = frames.filter((frame) => frame.type !== "heartbeat");
        if (changes.length === 0) continue;
        // After `ready` nothing is missed, so the list is read then.
        const isRead = isFiltered || changes.some(({ type }) => type !== "session" && type !== "removed");
        list = isRead ? await listAll(query, signal) : { ...list, sessions: merge(list.sessions, changes) };
        update(list);
      }
    } catch (error) {
      if (signal.aborted) return;
      list = { ...list, isLoading: false, error };
      update(list);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

async function* summaryFrames(query: SessionsQuery, signal: AbortSignal): AsyncGenerator<string[]> {
  if (query.transport === "websocket") {
    yield* subscribe({ ...query, signal }, { type: "subscribeSummaries" });
  } else {
    const response = await request(query, "/v1/stream", { signal });
    yield* readEvents(response.body!);
  }
}

/**
 * Returns the list after changes, in the server's order: the last changed first. A session without a
 * time of its own is listed by when it was written, which is now.
 */
function merge(sessions: readonly CatalogRow[], changes: readonly SummaryFrame[]): CatalogRow[] {
  const rows = [...sessions];
  for (const change of changes) {
    if (change.type !== "session" && change.type !== "removed") continue;
    const id = change.type === "session" ? change.session.id : change.sessionId;
    const known = rows.findIndex((it) => it.id === id);
    if (known >= 0) rows.splice(known, 1);
    if (change.type === "removed") continue;
    const time = timeOf(change.session) ?? Infinity;
    const place = rows.findIndex((it) => (timeOf(it) ?? Infinity) <= time);
    rows.splice(place < 0 ? rows.length : place, 0, change.session);
  }
  return rows;
}

function timeOf({ endedAt }: CatalogRow): number | undefined {
  return endedAt === null ? undefined : Date.parse(endedAt);
}
