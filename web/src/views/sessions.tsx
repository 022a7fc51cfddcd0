// All sessions: what waits for a person first, then what is live, then the rest by day or project.

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import type { CatalogRow, StatusReport } from "threadfold/slim";
import { useSessions } from "threadfold/slim/react";
import { firstLine, formatAgo, formatCost, formatCount, formatDay, formatExact, parseTime, plural, totalTokens } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { formatRoute, go, sessionRoute } from "../lib/route.js";
import { fetchJson, isUnauthorized, messageOf, type Server } from "../lib/server.js";
import { changeSettings, useSettings } from "../lib/settings.js";
import { Icon } from "../parts/icon.js";
import { TokenNeeded } from "./problems.js";

type ListItem = { readonly heading: string; readonly count: number } | { readonly row: CatalogRow };

export function SessionsView({ server }: { server: Server }) {
  const token = server.token === undefined ? {} : { token: server.token };
  const { sessions, isLoading, isComplete, unread, error } = useSessions({ url: server.url, ...token, transport: "websocket" });
  const progress = useImport(server);
  const { grouping } = useSettings();
  const [filter, setFilter] = useState("");
  const [selected, select] = useState<string>();
  const field = useRef<HTMLInputElement>(null);
  const items = useMemo(() => groupSessions(filterSessions(sessions, filter), grouping), [sessions, filter, grouping]);
  useEffect(() => {
    document.title = "Sessions · Threadfold";
  }, []);
  const rows = items.flatMap((it) => ("row" in it ? [it.row.id] : []));
  const at = selected === undefined ? -1 : rows.indexOf(selected);
  const scroller = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => ("row" in items[index]! ? 57 : 38),
    getItemKey: (index) => {
      const item = items[index]!;
      return "row" in item ? item.row.id : `# ${item.heading}`;
    },
    overscan: 8,
  });
  const step = (by: number) => {
    const id = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
    if (id === undefined) return;
    select(id);
    virtualizer.scrollToIndex(items.findIndex((it) => "row" in it && it.row.id === id));
  };
  useKeys([
    { keys: ["j", "ArrowDown"], label: "Next session", run: () => step(1), inFields: false },
    { keys: ["k", "ArrowUp"], label: "Previous session", run: () => step(-1) },
    { keys: ["Enter"], label: "Open the session", run: () => selected !== undefined && go(sessionRoute(selected)) },
    { keys: ["/"], label: "Filter", run: () => field.current?.focus() },
    { keys: ["b"], label: "Group by day or project", run: () => changeSettings({ grouping: grouping === "day" ? "project" : "day" }) },
  ]);
  if (isUnauthorized(error)) return <TokenNeeded />;
  const shown = rows.length;
  return (
    <main className="sessions" id="content">
      <header className="sessions-head">
        <h1>Sessions</h1>
        <span className="dim" role="status">
          {isLoading ? "loading…" : filter === "" ? plural(sessions.length, "session") : `${shown} of ${sessions.length}`}
          {!isLoading && !isComplete && ", still searching"}
        </span>
        {error !== undefined && <span className="connection is-lost" role="status" title={messageOf(error)}>reconnecting</span>}
        <span className="spring" />
        <label className="filter">
          <Icon name="search" />
          <span className="unseen">Filter sessions</span>
          <input
            ref={field}
            type="search"
            placeholder="Filter by title, project, agent or model"
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") event.currentTarget.blur();
              if (event.key === "Enter" || event.key === "ArrowDown") {
                event.currentTarget.blur();
                if (rows[0] !== undefined) select(rows[0]);
                if (event.key === "Enter" && rows.length === 1) go(sessionRoute(rows[0]!));
                event.preventDefault();
              }
            }}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
        <div className="segments" role="group" aria-label="Group by">
          {(["day", "project"] as const).map((it) => (
            <button key={it} type="button" aria-pressed={grouping === it} onClick={() => changeSettings({ grouping: it })}>
              {it === "day" ? "Day" : "Project"}
            </button>
          ))}
        </div>
      </header>
      {progress !== undefined && !progress.isComplete && progress.total > 0 && (
        <div className="import" role="status">
          <progress max={progress.total} value={progress.done + progress.failed} aria-label="Import" />
          Importing {progress.done + progress.failed} of {plural(progress.total, "session")}
        </div>
      )}
      {unread.length > 0 && (
        <details className="unread">
          <summary>
            <Icon name="warn" /> {plural(unread.length, "thing")} could not be read
          </summary>
          <ul>
            {unread.map((it) => (
              <li key={`${it.path} ${it.what}`}>
                <code>{it.path}</code> {it.what}
              </li>
            ))}
          </ul>
        </details>
      )}
      {isLoading && <Skeleton />}
      {!isLoading && sessions.length === 0 && error === undefined && (
        <div className="empty">
          <h2>No sessions yet</h2>
          <p>Start Claude Code, OpenCode or Codex on this machine, and its session appears here while it runs.</p>
        </div>
      )}
      {!isLoading && sessions.length === 0 && error !== undefined && (
        <div className="empty" role="alert">
          <h2>The server cannot be reached</h2>
          <p>{messageOf(error)}. The page tries again by itself.</p>
        </div>
      )}
      {sessions.length > 0 && shown === 0 && <p className="empty">No session matches “{filter}”.</p>}
      <div className="scroller" ref={scroller} tabIndex={-1}>
        <div className="session-rows" role="list" aria-label="Sessions" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const entry = items[item.index]!;
            return (
              <div key={item.key} role="listitem" data-index={item.index} ref={virtualizer.measureElement} className="session-item" style={{ transform: `translateY(${item.start}px)` }}>
                {"row" in entry ? (
                  <SessionRow row={entry.row} isSelected={entry.row.id === selected} />
                ) : (
                  <h2 className="group">
                    {entry.heading} <span className="dim">{entry.count}</span>
                  </h2>
                )}
              </div>
            );
          })}
        </div>
      </div>
    </main>
  );
}

const SessionRow = memo(({ row, isSelected }: { row: CatalogRow; isSelected: boolean }) => {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (isSelected) link.current?.focus({ preventScroll: true });
  }, [isSelected]);
  const ended = parseTime(row.endedAt);
  const title = row.title ?? row.firstPrompt ?? row.id;
  const isUnknown = (name: string) => row.unknown?.includes(name) === true;
  const state = row.waiting > 0 ? "waits" : row.isWorking ? "working" : row.isLive ? "live" : "idle";
  return (
    <a ref={link} className={`session-row is-${state} ${isSelected ? "is-selected" : ""}`} href={formatRoute(sessionRoute(row.id))}>
      <span className={`dot dot-${state}`} aria-hidden="true" />
      <span className="session-main">
        <span className="session-title">{firstLine(title, 200)}</span>
        <span className="session-sub">
          {row.agent !== null && <span className="agent-name">{row.agent}</span>}
          {row.model !== null && <span>{row.model}</span>}
          <span className="path" title={row.project}>{row.project}</span>
        </span>
      </span>
      {state !== "idle" && (
        <span className={`state state-${state}`}>{row.waiting > 0 ? `${row.waiting} waiting for you` : state === "working" ? "working" : "live"}</span>
      )}
      <span className="session-facts">
        <span title="Blocks">{isUnknown("blocks") || row.blocks === null ? "…" : row.blocks < 1_000 ? plural(row.blocks, "block") : `${formatCount(row.blocks)} blocks`}</span>
        <span title="Subagents">{row.subagents !== null && row.subagents > 0 ? plural(row.subagents, "subagent") : ""}</span>
        <span title="Tokens">{row.usage !== null && totalTokens(row.usage) > 0 ? `${formatCount(totalTokens(row.usage))} tokens` : ""}</span>
        <span title="Cost, as the agent reports it">{row.costUsd !== null ? formatCost(row.costUsd) : ""}</span>
      </span>
      <span className="session-when" title={ended === undefined ? "" : formatExact(ended)}>
        {ended === undefined ? "" : formatAgo(ended)}
      </span>
    </a>
  );
});

function Skeleton() {
  return (
    <div className="skeleton" aria-hidden="true">
      {Array.from({ length: 8 }, (_, at) => (
        <div key={at} className="skeleton-row" />
      ))}
    </div>
  );
}

export function filterSessions(sessions: readonly CatalogRow[], filter: string): CatalogRow[] {
  const words = filter.toLowerCase().split(/\s+/).filter((it) => it !== "");
  if (words.length === 0) return [...sessions];
  return sessions.filter((row) => {
    const text = [row.title, row.firstPrompt, row.project, row.agent, row.model, row.id].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function groupSessions(sessions: readonly CatalogRow[], grouping: "day" | "project"): ListItem[] {
  const groups = new Map<string, CatalogRow[]>([["Needs you", []], ["Live", []]]);
  for (const row of sessions) {
    const time = parseTime(row.endedAt);
    const place = grouping === "project" ? row.project || "No project" : time === undefined ? "No time" : formatDay(time);
    const name = row.waiting > 0 ? "Needs you" : row.isLive ? "Live" : place;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [row]);
    else group.push(row);
  }
  return [...groups].flatMap(([heading, rows]) => (rows.length === 0 ? [] : [{ heading, count: rows.length }, ...rows.map((row) => ({ row }))]));
}

/** Returns how far the import is, while there is one. */
function useImport(server: Server): StatusReport["import"] | undefined {
  const [progress, setProgress] = useState<StatusReport["import"]>();
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      try {
        const status = await fetchJson<StatusReport>(server, "/v1/status", abort.signal);
        setProgress(status.import);
        if (status.import.isComplete) return;
      } catch (error) {
        if (abort.signal.aborted || isUnauthorized(error)) return;
      }
      timer = setTimeout(() => void read(), 1_500);
    };
    void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [server]);
  return progress;
}
