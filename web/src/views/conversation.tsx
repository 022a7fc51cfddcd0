// A conversation as a list that grows: only what is in view is in the document, nothing jumps, and
// the end is followed while the user is there.

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { ConversationState } from "threadfold/slim";
import { useKeys } from "../lib/keys.js";
import { go, type SessionRoute } from "../lib/route.js";
import { useSettings } from "../lib/settings.js";
import type { Details } from "../model/details.js";
import { buildRows, keepRows, type Row } from "../model/rows.js";
import { conversationOf } from "../model/subagents.js";
import { summarizeTool } from "../model/tool.js";
import { Icon } from "../parts/icon.js";
import { RowView } from "./row-view.js";

export interface ConversationProps {
  readonly state: ConversationState;
  readonly details: Details | undefined;
  readonly route: SessionRoute;
  /** The rows that the shown record changed, in the past. */
  readonly changed: ReadonlySet<string> | undefined;
}

/** How many characters of text are in a line of the usual width, and how high a line is. */
const LINE_LENGTH = 118;
const LINE_HEIGHT = 21;

/**
 * What a row measures before it was drawn. Where that is right, nothing has to be placed again when it
 * is drawn, and most rows are one line.
 */
function estimate(row: Row | undefined): number {
  if (row === undefined) return 32;
  switch (row.kind) {
    case "tool":
      return 32;
    case "noise":
      return 26;
    case "subagent":
      return row.isOpen ? 46 : 69;
    case "turn":
      return 36;
    case "boundary":
      return 48;
    case "block": {
      const { block } = row;
      if (block.type !== "user_message" && block.type !== "assistant_text") return 32;
      const length = typeof block.content === "string" ? block.content.length : 80;
      const lines = Math.max(1, Math.ceil(length / LINE_LENGTH));
      return (block.type === "user_message" ? 40 : 10) + lines * LINE_HEIGHT;
    }
  }
}

/** So near to the end counts as being there. */
const NEAR = 48;

export function Conversation({ state, details, route, changed }: ConversationProps) {
  const { modelOnly, noise } = useSettings();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const kept = useRef<Map<string, Row>>(new Map());
  const rows = useMemo(() => {
    const built = buildRows(state, route.conversation, { open, showsNoise: noise, modelOnly, details });
    kept.current = keepRows(kept.current, built);
    return built;
  }, [state, route.conversation, open, noise, modelOnly, details]);
  const getItemKey = useItemKeys(rows);

  const scroller = useRef<HTMLDivElement>(null);
  const [selected, setSelected] = useState<string>();
  const isFollowing = useRef(true);
  const [isAway, setAway] = useState(false);
  const [fresh, setFresh] = useState(0);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (at) => estimate(rows[at]),
    getItemKey,
    overscan: 6,
    // A row that was measured is drawn before the next frame, so nothing is seen to move.
    useAnimationFrameWithResizeObserver: false,
  });
  const size = virtualizer.getTotalSize();

  // The end is followed while the user is there; else what is new is counted.
  const count = useRef(rows.length);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    if (isFollowing.current) element.scrollTop = element.scrollHeight;
    else if (rows.length > count.current) setFresh((it) => it + rows.length - count.current);
    count.current = rows.length;
  }, [rows, size]);

  const onScroll = useCallback(() => {
    const element = scroller.current;
    if (element === null) return;
    const isNear = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    isFollowing.current = isNear;
    setAway(!isNear);
    if (isNear) setFresh(0);
  }, []);

  const toggle = useCallback((key: string) => {
    // What the user opens stays where it is.
    isFollowing.current = false;
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  }, []);

  const show = useCallback(
    (at: number, align: "auto" | "center" | "start" = "auto") => {
      isFollowing.current = false;
      const row = rows[at];
      if (row === undefined) return;
      setSelected(row.key);
      virtualizer.scrollToIndex(at, { align });
    },
    [rows, virtualizer],
  );

  const toEnd = useCallback(() => {
    isFollowing.current = true;
    setFresh(0);
    const element = scroller.current;
    if (element !== null) element.scrollTop = element.scrollHeight;
  }, []);

  useShownBlock(rows, route, show);
  useChangedRow(rows, changed, show);

  const at = useMemo(() => (selected === undefined ? -1 : rows.findIndex((row) => row.key === selected)), [rows, selected]);
  const row = rows[at];
  const step = (by: number) => {
    const visible = virtualizer.getVirtualItems();
    const scrollTop = scroller.current?.scrollTop ?? 0;
    const first = visible.find((it) => it.end > scrollTop)?.index ?? 0;
    const start = at < 0 || !visible.some((it) => it.index === at) ? (by > 0 ? first - 1 : first + 1) : at;
    let next = start + by;
    while (rows[next] !== undefined && rows[next]!.kind === "turn") next += Math.sign(by);
    if (rows[next] !== undefined) show(next);
  };
  const stepTo = (isMeant: (row: Row) => boolean, by: 1 | -1) => {
    for (let next = (at < 0 ? (by > 0 ? -1 : rows.length) : at) + by; rows[next] !== undefined; next += by) {
      if (isMeant(rows[next]!)) return show(next, "start");
    }
  };
  useKeys([
    { keys: ["j", "ArrowDown"], label: "Next block", run: () => step(1) },
    { keys: ["k", "ArrowUp"], label: "Previous block", run: () => step(-1) },
    { keys: ["n"], label: "Next prompt", run: () => stepTo((it) => it.kind === "block" && it.block.type === "user_message", 1) },
    { keys: ["p"], label: "Previous prompt", run: () => stepTo((it) => it.kind === "block" && it.block.type === "user_message", -1) },
    { keys: ["e"], label: "Next failure", run: () => stepTo(isFailure, 1) },
    { keys: ["f"], label: "Next change of a file", run: () => stepTo((it) => it.kind === "tool" && summarizeTool(it.block).kind === "edit", 1) },
    { keys: ["Enter"], label: "Open or close the block", run: () => row !== undefined && toggle(row.key) },
    {
      keys: ["o"],
      label: "Open the subagent as a conversation",
      run: () => {
        if (row?.kind === "subagent" && row.subagent !== undefined) {
          go({ ...route, conversation: conversationOf(row.subagent), block: undefined });
        }
      },
    },
    { keys: ["End", "G"], label: "To the end, and follow it", run: toEnd },
    {
      keys: ["Home", "g g"],
      label: "To the beginning",
      run: () => {
        isFollowing.current = false;
        virtualizer.scrollToOffset(0);
      },
    },
  ]);

  return (
    <div className="conversation">
      <div className="scroller" ref={scroller} onScroll={onScroll} tabIndex={-1}>
        <div className="rows" role="feed" aria-label="Conversation" aria-busy={false} style={{ height: size }}>
          {virtualizer.getVirtualItems().map((item) => {
            const shown = rows[item.index];
            if (shown === undefined) return null;
            return (
              <Article
                key={item.key}
                row={shown}
                index={item.index}
                count={rows.length}
                start={item.start}
                measure={virtualizer.measureElement}
                isSelected={shown.key === selected}
                isChanged={changed?.has(shown.key) === true}
                isOpen={open.has(shown.key)}
                route={route}
                toggle={toggle}
              />
            );
          })}
        </div>
        {rows.length === 0 && <p className="empty">Nothing here yet.</p>}
      </div>
      {isAway && (
        <button type="button" className="new-below" onClick={toEnd}>
          <Icon name="down" />
          {fresh > 0 ? `${fresh} new below` : "To the end"}
        </button>
      )}
    </div>
  );
}

/**
 * Returns the function that names rows. It is the same function until their names differ, because
 * another one has all rows placed again.
 */
function useItemKeys(rows: readonly Row[]): (at: number) => string | number {
  const last = useRef<{ rows: readonly Row[]; name: (at: number) => string | number }>(undefined);
  return useMemo(() => {
    const before = last.current;
    const isSame = before !== undefined && before.rows.length === rows.length && rows.every((row, at) => row === before.rows[at] || row.key === before.rows[at]!.key);
    const name = isSame ? before.name : (at: number) => rows[at]?.key ?? at;
    last.current = { rows, name };
    return name;
  }, [rows]);
}

function isFailure(row: Row): boolean {
  if (row.kind === "tool") return row.result?.isError === true || row.block.status === "error";
  if (row.kind === "subagent") return row.block?.status === "error";
  return row.kind === "block" && row.block.type === "error";
}

interface ArticleProps {
  readonly row: Row;
  readonly index: number;
  readonly count: number;
  readonly start: number;
  readonly measure: (element: Element | null) => void;
  readonly isSelected: boolean;
  readonly isChanged: boolean;
  readonly isOpen: boolean;
  readonly route: SessionRoute;
  readonly toggle: (key: string) => void;
}

const LABELS: Record<string, string> = {
  user_message: "Prompt",
  assistant_text: "Answer",
  thinking: "Thinking",
  error: "Error",
  permission: "Permission request",
};

function labelOf(row: Row): string {
  if (row.kind === "block") return LABELS[row.block.type] ?? row.block.type.replaceAll("_", " ");
  if (row.kind === "tool") return `Tool ${row.block.toolName}`;
  return row.kind;
}

const Article = memo(({ row, index, count, start, measure, isSelected, isChanged, isOpen, route, toggle }: ArticleProps) => {
  const element = useRef<HTMLElement | null>(null);
  const attach = useCallback(
    (node: HTMLElement | null) => {
      element.current = node;
      measure(node);
    },
    [measure],
  );
  useEffect(() => {
    // The keyboard continues from the block; a field that is in use keeps it.
    const active = document.activeElement;
    if (isSelected && !(active instanceof HTMLInputElement)) element.current?.focus({ preventScroll: true });
  }, [isSelected]);
  return (
    <article
      ref={attach}
      data-index={index}
      data-key={row.key}
      aria-posinset={index + 1}
      aria-setsize={count}
      aria-label={labelOf(row)}
      tabIndex={isSelected ? 0 : -1}
      className={`row row-${row.kind} ${row.kind === "block" ? `row-${row.block.type}` : ""} depth-${Math.min(row.depth, 4)} ${isSelected ? "is-selected" : ""} ${isChanged ? "is-changed" : ""}`}
      style={{ transform: `translateY(${start}px)` }}
    >
      <RowView row={row} route={route} isOpen={isOpen} toggle={toggle} />
    </article>
  );
});

/** Shows the block that the address names, once it is there. */
function useShownBlock(rows: readonly Row[], route: SessionRoute, show: (at: number, align?: "center") => void): void {
  const shown = useRef<string>(undefined);
  const name = route.block === undefined ? undefined : `${route.conversation ?? "main"} ${route.block}`;
  useEffect(() => {
    if (name === undefined || shown.current === name) {
      shown.current = name;
      return;
    }
    const at = rows.findIndex((row) => row.key.endsWith(`/${route.block}`) || ("block" in row && row.block?.id === route.block));
    if (at < 0) return;
    shown.current = name;
    show(at, "center");
    // Rows on the way are measured when they are drawn; then the place is exact.
    const timer = setTimeout(() => show(at, "center"), 60);
    return () => clearTimeout(timer);
  }, [name, rows, route.block, show]);
}

/** Shows what a record changed. */
function useChangedRow(rows: readonly Row[], changed: ReadonlySet<string> | undefined, show: (at: number) => void): void {
  const seen = useRef<ReadonlySet<string>>(undefined);
  useEffect(() => {
    if (changed === undefined || changed === seen.current) return;
    seen.current = changed;
    const at = rows.findLastIndex((row) => changed.has(row.key));
    if (at >= 0) show(at);
  }, [rows, changed, show]);
}

