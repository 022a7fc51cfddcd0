// Finds text in sessions that are not open: their exports are read one after another, the newest
// first, and kept while the page is open.

import type { CatalogRow } from "threadfold/slim";
import { fetchFrom, type Server } from "../lib/server.js";

/** So many sessions are searched; a search over all of a machine's history is the server's business. */
const MOST_SESSIONS = 100;
/** So much text is kept. */
const MOST_TEXT = 60_000_000;

export interface TextMatch {
  readonly row: CatalogRow;
  readonly line: string;
  readonly count: number;
}

export interface TextSearch {
  readonly matches: readonly TextMatch[];
  readonly searched: number;
  readonly total: number;
}

const texts = new Map<string, string>();
let kept = 0;

async function textOf(server: Server, row: CatalogRow, signal: AbortSignal): Promise<string> {
  const key = `${row.id} ${row.records ?? ""} ${row.endedAt ?? ""}`;
  const known = texts.get(key);
  if (known !== undefined) return known;
  const path = `/v1/sessions/${encodeURIComponent(row.id)}/export?format=markdown`;
  const text = await (await fetchFrom(server, path, signal)).text();
  kept += text.length;
  texts.set(key, text);
  for (const [oldest, value] of texts) {
    if (kept <= MOST_TEXT) break;
    texts.delete(oldest);
    kept -= value.length;
  }
  return text;
}

/** Searches sessions for a text, and reports what was found so far. */
export async function searchText(server: Server, rows: readonly CatalogRow[], wanted: string, signal: AbortSignal, report: (found: TextSearch) => void): Promise<void> {
  const searched = rows.slice(0, MOST_SESSIONS);
  const lower = wanted.toLowerCase();
  const matches: TextMatch[] = [];
  for (const [at, row] of searched.entries()) {
    try {
      const text = await textOf(server, row, signal);
      const lines = text.split("\n").filter((line) => line.toLowerCase().includes(lower));
      if (lines[0] !== undefined) matches.push({ row, line: lines[0].trim(), count: lines.length });
    } catch (error) {
      if (signal.aborted) return;
      // A session that cannot be exported now is not found; the others are.
      console.warn(`${row.id} was not searched`, error);
    }
    if (signal.aborted) return;
    report({ matches: [...matches], searched: at + 1, total: rows.length });
  }
}
