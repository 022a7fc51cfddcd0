// A session over time: lanes of bars, tokens and cost below, and what took or cost most beside it.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { ConversationState } from "threadfold/slim";
import { formatCost, formatCount, formatDuration } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { formatRoute, go, type SessionRoute } from "../lib/route.js";
import type { Details } from "../model/details.js";
import { type Bar, buildLanes, costliestOf, type Lane, type Lanes, longestOf } from "../model/lanes.js";
import { UsageChart } from "./usage-chart.js";

const LANE = 19;
const ROW = 15;
const HEAD = 22;
const LABEL = 132;
/** Room for the axis of the chart below, so that both have the same scale. */
const RIGHT = 60;

export interface Range {
  readonly start: number;
  readonly end: number;
}

export default function Timeline({ state, details, route }: { state: ConversationState; details: Details | undefined; route: SessionRoute }) {
  const lanes = useMemo(() => buildLanes(state, details), [state, details]);
  const [range, setRange] = useState<Range>();
  const shown = range ?? { start: lanes.start, end: lanes.end };
  const zoom = useCallback(
    (factor: number, around = 0.5) => {
      setRange((before) => {
        const { start, end } = before ?? { start: lanes.start, end: lanes.end };
        const length = Math.max(10, (end - start) * factor);
        if (length >= lanes.end - lanes.start) return undefined;
        const middle = start + (end - start) * around;
        return clamp({ start: middle - length * around, end: middle + length * (1 - around) }, lanes);
      });
    },
    [lanes],
  );
  const pan = useCallback(
    (by: number) => {
      setRange((before) => {
        if (before === undefined) return before;
        const shift = (before.end - before.start) * by;
        return clamp({ start: before.start + shift, end: before.end + shift }, lanes);
      });
    },
    [lanes],
  );
  useKeys([
    { keys: ["+", "="], label: "Zoom in", run: () => zoom(0.5) },
    { keys: ["-"], label: "Zoom out", run: () => zoom(2) },
    { keys: ["a", ","], label: "Earlier", run: () => pan(-0.25) },
    { keys: ["d", "."], label: "Later", run: () => pan(0.25) },
    { keys: ["0"], label: "All of it", run: () => setRange(undefined) },
  ]);
  const goTo = (conversation: string, block: string | undefined) => go({ ...route, view: "conversation", conversation: conversation === "main" ? undefined : conversation, block });
  if (lanes.lanes.every((lane) => lane.bars.length === 0)) return <p className="empty">No block of this session has a time.</p>;
  return (
    <div className="timeline">
      <div className="timeline-tools" role="group" aria-label="Zoom">
        <span className="dim">{formatDuration(lanes.end - lanes.start)} in all{range === undefined ? "" : `, ${formatDuration(shown.end - shown.start)} shown`}</span>
        <span className="spring" />
        <ul className="legend" aria-label="Colours">
          <li><i className="swatch swatch-turn" /> turn</li>
          <li><i className="swatch swatch-tool" /> tool</li>
          <li><i className="swatch swatch-subagent" /> subagent</li>
          <li><i className="swatch swatch-failed" /> failed</li>
        </ul>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>−</button>
        <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>+</button>
        <button type="button" onClick={() => setRange(undefined)} disabled={range === undefined}>All</button>
      </div>
      <div className="timeline-scroll">
        <LaneCanvas lanes={lanes} range={shown} onZoom={zoom} onPan={pan} onOpen={(bar) => goTo(bar.conversation, bar.block)} />
        <UsageChart points={lanes.points} range={shown} left={LABEL} right={RIGHT} />
      </div>
      <div className="ranks">
        <section aria-labelledby="rank-longest">
          <h2 id="rank-longest">Longest calls</h2>
          <ol>
            {longestOf(lanes).map((it, at) => (
              <li key={at}>
                <button type="button" onClick={() => goTo(it.conversation, it.block)}>
                  <b>{it.value}</b>
                  <span>{it.label}</span>
                </button>
              </li>
            ))}
          </ol>
        </section>
        <section aria-labelledby="rank-cost">
          <h2 id="rank-cost">Most tokens</h2>
          <ol>
            {costliestOf(lanes).map(({ lane, tokens }) => (
              <li key={lane.conversation}>
                <a href={formatRoute({ ...route, view: "conversation", conversation: lane.conversation === "main" ? undefined : lane.conversation, block: undefined })}>
                  <b>{lane.cost === undefined ? formatCount(tokens) : `≈ ${formatCost(lane.cost)}`}</b>
                  <span>{lane.name}</span>
                  <span className="dim">{formatCount(tokens)} tokens</span>
                </a>
              </li>
            ))}
          </ol>
        </section>
      </div>
    </div>
  );
}

function clamp({ start, end }: Range, lanes: Lanes): Range {
  const length = end - start;
  if (start < lanes.start) return { start: lanes.start, end: lanes.start + length };
  if (end > lanes.end) return { start: lanes.end - length, end: lanes.end };
  return { start, end };
}

interface CanvasProps {
  readonly lanes: Lanes;
  readonly range: Range;
  readonly onZoom: (factor: number, around: number) => void;
  readonly onPan: (by: number) => void;
  readonly onOpen: (bar: Bar) => void;
}

interface PlacedBar {
  readonly bar: Bar;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

function LaneCanvas({ lanes, range, onZoom, onPan, onOpen }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const placed = useRef<PlacedBar[]>([]);
  const [width, setWidth] = useState(800);
  const [hovered, hover] = useState<PlacedBar>();
  const [theme, setTheme] = useState(0);
  const drag = useRef<number>(undefined);
  const height = HEAD + lanes.lanes.reduce((sum, lane) => sum + heightOf(lane), 0) + 6;
  useEffect(() => {
    const parent = canvas.current?.parentElement;
    if (parent == null) return;
    const observer = new ResizeObserver(() => setWidth(parent.clientWidth));
    observer.observe(parent);
    // Colours are of the theme, and the canvas must be drawn again with others.
    const query = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => setTheme((it) => it + 1);
    query.addEventListener("change", redraw);
    const themes = new MutationObserver(redraw);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      observer.disconnect();
      themes.disconnect();
      query.removeEventListener("change", redraw);
    };
  }, []);
  useEffect(() => {
    if (canvas.current !== null) placed.current = draw(canvas.current, lanes, range, width, height);
  }, [lanes, range, width, height, theme]);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) return;
      event.preventDefault();
      const around = (event.offsetX - LABEL) / Math.max(1, element.clientWidth - LABEL - RIGHT);
      if (event.ctrlKey || event.metaKey) onZoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, around)));
      else onPan(event.deltaX / 600);
    };
    // React listens passively, and then the page would zoom as well.
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [onZoom, onPan]);
  const barAt = (event: React.MouseEvent) => {
    const { offsetX, offsetY } = event.nativeEvent;
    return placed.current.findLast((it) => offsetX >= it.left - 2 && offsetX <= it.right + 2 && offsetY >= it.top && offsetY <= it.bottom);
  };
  const summary = lanes.lanes.map((lane) => `${lane.name}: ${lane.bars.length} bars, ${formatDuration(lane.durationMs)}`).join("; ");
  return (
    <div className="lanes">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Lanes over time. ${summary}`}
        className={hovered === undefined ? "" : "is-over-bar"}
        onMouseMove={(event) => {
          if (drag.current !== undefined && event.buttons === 1) {
            onPan(-(event.clientX - drag.current) / Math.max(1, width - LABEL - RIGHT));
            drag.current = event.clientX;
          }
          hover(barAt(event));
        }}
        onMouseDown={(event) => (drag.current = event.clientX)}
        onMouseLeave={() => hover(undefined)}
        onClick={(event) => {
          const found = barAt(event);
          if (found !== undefined) onOpen(found.bar);
        }}
      />
      {hovered !== undefined && (
        <div className="lane-tip" style={{ left: Math.min(hovered.left, width - 260), top: hovered.bottom + 4 }}>
          <b>{formatDuration(hovered.bar.end - hovered.bar.start)}</b> {hovered.bar.label.slice(0, 160)}
        </div>
      )}
    </div>
  );
}

function heightOf(lane: Lane): number {
  return LANE + lane.rows * ROW;
}

function draw(canvas: HTMLCanvasElement, lanes: Lanes, range: Range, width: number, height: number): PlacedBar[] {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (context === null) return [];
  const style = getComputedStyle(canvas);
  const color = (name: string) => style.getPropertyValue(name).trim();
  context.scale(scale, scale);
  context.font = `12px ${style.fontFamily}`;
  context.textBaseline = "middle";
  const place = (time: number) => LABEL + ((time - range.start) / (range.end - range.start)) * (width - LABEL - RIGHT);
  drawAxis(context, range, place, width, height, color);
  const placed: PlacedBar[] = [];
  let bottom = HEAD;
  lanes.lanes.forEach((lane, at) => {
    const top = bottom;
    const size = heightOf(lane);
    bottom += size;
    context.fillStyle = color(at % 2 === 0 ? "--lane" : "--lane-other");
    context.fillRect(0, top, width, size);
    context.save();
    context.beginPath();
    context.rect(LABEL, top, width - LABEL, size);
    context.clip();
    for (const bar of lane.bars) {
      const left = place(bar.start);
      const end = bar.isRunning ? Math.max(bar.end, lanes.end) : bar.end;
      const right = Math.max(place(end), left + 2);
      if (right < LABEL || left > width) continue;
      const [from, high] = bar.kind === "turn" ? [5, 7] : [15 + bar.row * ROW, 13];
      context.fillStyle = color(bar.isFailed ? "--bad" : `--bar-${bar.kind}`);
      context.beginPath();
      context.roundRect(left, top + from, right - left, high, 2);
      context.fill();
      placed.push({ bar, left, right, top: top + from, bottom: top + from + high });
    }
    context.restore();
    context.fillStyle = color("--text");
    const indent = Math.min(lane.depth, 4) * 10;
    context.fillText(fit(context, lane.name, LABEL - 16 - indent), 8 + indent, top + size / 2);
  });
  return placed;
}

function fit(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let length = Math.min(text.length, 40);
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return `${text.slice(0, length)}…`;
}

function drawAxis(context: CanvasRenderingContext2D, range: Range, place: (time: number) => number, width: number, height: number, color: (name: string) => string): void {
  const wanted = (range.end - range.start) / Math.max(2, (width - LABEL) / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const unit = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= wanted) ?? wanted;
  context.strokeStyle = color("--line");
  context.fillStyle = color("--dim");
  for (let time = 0; range.start + time <= range.end; time += unit) {
    const x = Math.round(place(range.start + time)) + 0.5;
    context.beginPath();
    context.moveTo(x, HEAD - 4);
    context.lineTo(x, height);
    context.stroke();
    if (x < width - RIGHT - 20) context.fillText(formatDuration(time), x + 4, HEAD / 2);
  }
}
