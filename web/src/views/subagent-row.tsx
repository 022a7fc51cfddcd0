import { formatDuration, firstLine, parseTime, plural } from "../lib/format.js";
import type { Row } from "../model/rows.js";
import { summarizeTool } from "../model/tool.js";
import { Icon } from "../parts/icon.js";
import { Tokens } from "../parts/tokens.js";

type SubagentRowData = Extract<Row, { kind: "subagent" }>;

export function SubagentRow({ row, href, onToggle }: { row: SubagentRowData; href: string | undefined; onToggle: () => void }) {
  const { block, subagent, isOpen } = row;
  const status = block?.status ?? subagent?.status ?? "pending";
  const isRunning = status === "running" || status === "pending";
  const isInterrupted = block?.interrupted === true;
  const duration = block?.durationMs ?? subagent?.durationMs;
  const title = block?.description ?? firstLine(subagent?.prompt ?? "", 120);
  const outcome = isInterrupted ? "interrupted" : isRunning ? "running" : status === "error" ? "failed" : "done";
  return (
    <div className={`subagent subagent-${outcome} ${isOpen ? "is-open" : ""}`}>
      <div className="fold-line">
        <button type="button" className="fold-button" aria-expanded={isOpen} onClick={onToggle} disabled={subagent === undefined}>
          <Icon name="agent" />
          <span className="fold-name">{block?.name ?? "subagent"}</span>
          <span className="fold-title">{title}</span>
          {row.subagent?.unplaced === true && <span className="tag">its call is not known</span>}
          <span className="fold-after">
            {row.usage !== undefined && <Tokens usage={row.usage} cost={row.cost} />}
            {duration !== undefined && <span className="time">{formatDuration(duration)}</span>}
            <span className={`outcome outcome-${outcome}`}>
              <Icon name={outcome === "done" ? "check" : outcome === "failed" ? "cross" : outcome === "running" ? "clock" : "stop"} />
              <span className={outcome === "done" ? "unseen" : ""}>{outcome}</span>
            </span>
          </span>
          <Icon name="chevron" className={isOpen ? "chevron turned" : "chevron"} />
        </button>
        {href !== undefined && (
          <a className="open-alone" href={href} title="Open as a conversation of its own" aria-label={`Open subagent ${title}`}>
            <Icon name="open" />
          </a>
        )}
      </div>
      {!isOpen && subagent !== undefined && <Progress row={row} isRunning={isRunning} />}
    </div>
  );
}

/** What it does now, or what it answered. */
function Progress({ row, isRunning }: { row: SubagentRowData; isRunning: boolean }) {
  const { subagent, block } = row;
  if (subagent === undefined) return null;
  const last = subagent.blocks.at(-1);
  const calls = subagent.blocks.filter((it) => it.type === "tool_use").length;
  const now = last === undefined ? "starting" : describe(last);
  const output = typeof block?.output === "string" ? block.output : typeof subagent.output === "string" ? subagent.output : "";
  const time = parseTime(last?.timestamp);
  return (
    <p className="progress">
      <span className="dim">{plural(subagent.blocks.length, "block")}, {plural(calls, "call")}</span>
      <span className="progress-words">{isRunning ? now : firstLine(output, 200)}</span>
      {isRunning && time !== undefined && <span className="pulse" aria-hidden="true" />}
    </p>
  );
}

type AnyBlock = NonNullable<SubagentRowData["subagent"]>["blocks"][number];

function describe(block: AnyBlock): string {
  if (block.type === "tool_use") {
    const { name, title } = summarizeTool(block);
    return `${name} ${title}`;
  }
  if (block.type === "assistant_text") return firstLine(block.content.slice(-200), 160);
  if (block.type === "thinking") return "thinking";
  return block.type.replaceAll("_", " ");
}

