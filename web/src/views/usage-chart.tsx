// Tokens of each message over time, by kind, below the lanes.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatCost, formatCount, formatDuration } from "../lib/format.js";
import type { UsagePoint } from "../model/lanes.js";
import type { Range } from "./timeline.js";

export function UsageChart({ points, range, left, right }: { points: readonly UsagePoint[]; range: Range; left: number; right: number }) {
  const holder = useRef<HTMLDivElement>(null);
  const start = range.start;
  useEffect(() => {
    const element = holder.current;
    if (element === null || points.length === 0) return;
    const style = getComputedStyle(element);
    const color = (name: string) => style.getPropertyValue(name).trim();
    let [input, cached, output, cost] = [0, 0, 0, 0];
    const rows = points.map(({ time, usage, cost: more }) => {
      input += usage.inputTokens + usage.cacheCreationTokens;
      cached += usage.cacheReadTokens;
      output += usage.outputTokens;
      cost += more ?? 0;
      return [time, input, cached, output, cost] as const;
    });
    const column = (at: number) => rows.map((row) => row[at]!);
    const hasCost = points.some((it) => it.cost !== undefined);
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
    const stepped = uPlot.paths.stepped!({ align: 1 });
    const line = (label: string, name: string, scale: string, format: (value: number) => string) => ({
      label,
      scale,
      stroke: color(name),
      width: 1.5,
      paths: stepped,
      points: { show: rows.length < 60, size: 4 },
      value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
    });
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 180,
        cursor: { y: false },
        padding: [8, hasCost ? 0 : right, 0, 0],
        scales: { x: { time: false, range: () => [range.start, range.end] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((it) => formatDuration(it - start)) },
          { ...axis, scale: "tokens", size: left, values: (_, ticks) => ticks.map(formatCount) },
          ...(hasCost ? [{ ...axis, scale: "cost", side: 1, size: right, grid: { show: false }, values: (_: uPlot, ticks: number[]) => ticks.map(formatCost) }] : []),
        ],
        series: [
          { label: "time", value: (_, value) => (value === null ? "–" : formatDuration(value - start)) },
          line("input", "--bar-turn", "tokens", formatCount),
          line("cached", "--bar-tool", "tokens", formatCount),
          line("output", "--bar-subagent", "tokens", formatCount),
          ...(hasCost ? [line("cost", "--odd", "cost", formatCost)] : []),
        ],
      },
      [column(0), column(1), column(2), column(3), ...(hasCost ? [column(4)] : [])],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 180 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [points, range.start, range.end, start, left, right]);
  if (points.length === 0) return <p className="dim chart-none">The agent reported no tokens.</p>;
  return <div ref={holder} className="usage-chart" role="img" aria-label="Tokens and cost over time, summed up" />;
}
