// The list of a server's sessions, kept up to date.

import type { CatalogRow, SummaryFrame } from "./generated/types.js";
import type { SessionsPage, SessionSummary } from "./client-types.js";
import { readEvents } from "./server-sent-events.js";
import { request, type ServerAddress } from "./transports.js";

/** Which sessions are listed. */
export interface SessionsQuery extends ServerAddress {
  readonly agent?: string;
  readonly project?: string;
  readonly text?: string;
  readonly live?: boolean;
  readonly limit?: number;
}

/** The sessions, and how the list is. */
export interface SessionsList {
  readonly sessions: readonly SessionSummary[];
  readonly isLoading: boolean;
  readonly error: unknown;
}

/** Returns one page of a server's sessions. */
export async function listSessions(query: SessionsQuery, signal?: AbortSignal): Promise<SessionsPage> {
  const parameters = new URLSearchParams();
  for (const name of ["agent", "project", "text", "live", "limit"] as const) {
    const value = query[name];
    if (value !== undefined) parameters.set(name, String(value));
  }
  const response = await request(query, `/v1/sessions?${parameters.toString()}`, signal ? { signal } : {});
  return (await response.json()) as SessionsPage;
}

/** Calls `update` with the list whenever it changes, until it is aborted. */
export async function followSessions(
  query: SessionsQuery,
  update: (list: SessionsList) => void,
  signal: AbortSignal,
): Promise<void> {
  let sessions: readonly CatalogRow[] = [];
  for (let pause = 50; !signal.aborted; pause = Math.min(pause * 2, 5_000)) {
    try {
      const response = await request(query, "/v1/stream", { signal });
      for await (const texts of readEvents(response.body!)) {
        pause = 50;
        const frames = texts.map((text) => JSON.parse(text) as SummaryFrame);
        // After `ready` nothing is missed, so the list is read then; filters are the server's.
        if (frames.some((frame) => frame.type !== "heartbeat")) {
          ({ sessions } = await listSessions(query, signal));
          update({ sessions, isLoading: false, error: undefined });
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      update({ sessions, isLoading: false, error });
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
