// One row of a conversation.

import { memo } from "react";
import { firstLine, formatClock, formatDuration, formatExact, parseTime, plural } from "../lib/format.js";
import { formatRoute, type SessionRoute } from "../lib/route.js";
import { outputText } from "../model/output.js";
import type { Row } from "../model/rows.js";
import { conversationOf } from "../model/subagents.js";
import { CopyButton } from "../parts/copy.js";
import { Icon } from "../parts/icon.js";
import { Tokens } from "../parts/tokens.js";
import { BlockBody } from "./block-body.js";
import { SubagentRow } from "./subagent-row.js";
import { ToolRow } from "./tool-row.js";

export interface RowViewProps {
  readonly row: Row;
  readonly route: SessionRoute;
  readonly isOpen: boolean;
  readonly toggle: (key: string) => void;
}

export const RowView = memo(({ row, route, isOpen, toggle }: RowViewProps) => {
  const onToggle = () => toggle(row.key);
  switch (row.kind) {
    case "tool":
      return (
        <Frame row={row} route={route}>
          <ToolRow row={row} isOpen={isOpen} onToggle={onToggle} />
        </Frame>
      );
    case "subagent": {
      const name = row.subagent === undefined ? undefined : conversationOf(row.subagent);
      const href = name === undefined ? undefined : formatRoute({ ...route, conversation: name, block: undefined, view: "conversation" });
      return (
        <Frame row={row} route={route}>
          <SubagentRow row={row} href={href} onToggle={onToggle} />
        </Frame>
      );
    }
    case "block":
      return (
        <Frame row={row} route={route}>
          <BlockBody block={row.block} isOpen={isOpen} onToggle={onToggle} />
        </Frame>
      );
    case "noise":
      return <Noise row={row} onToggle={onToggle} />;
    case "boundary":
      return (
        <div className="boundary">
          <span>
            <Icon name="fold" />
            {row.block?.message ?? "Above is out of the model's context"}
            {row.count > 0 && <span className="dim"> · {plural(row.count, "block")}</span>}
          </span>
        </div>
      );
    case "turn":
      return (
        <div className="turn">
          <span>Turn {row.number}</span>
          {row.durationMs !== undefined && <span>{formatDuration(row.durationMs)}</span>}
          {row.calls > 0 && <span>{plural(row.calls, "call")}</span>}
          {row.failures > 0 && <span className="failed">{row.failures} failed</span>}
          <Tokens usage={row.usage} cost={row.cost} />
        </div>
      );
  }
});

type FramedRow = Extract<Row, { kind: "tool" | "subagent" | "block" }>;

/** What all blocks have: who, when, a link, a copy, and whether they were cut off. */
function Frame({ row, route, children }: { row: FramedRow; route: SessionRoute; children: React.ReactNode }) {
  const { block } = row;
  const time = parseTime(block?.timestamp);
  const isInactive = block?.inactive === true;
  const id = block?.id;
  const conversation = row.conversation === "main" ? undefined : row.conversation;
  const link = () => {
    const target = formatRoute({ ...route, conversation, block: id, view: "conversation" });
    return `${location.origin}${location.pathname}${target}`;
  };
  const isMarked = block?.interrupted === true && row.kind === "block";
  return (
    <div className={`frame ${isInactive ? "is-inactive" : ""}`}>
      {children}
      {isMarked && <span className="tag tag-odd">interrupted</span>}
      {isInactive && <span className="unseen">Out of the model's context</span>}
      <div className="row-tools">
        {time !== undefined && <time dateTime={new Date(time).toISOString()} title={formatExact(time)}>{formatClock(time)}</time>}
        {row.kind === "block" && <CopyButton text={() => textOfRow(row)} label="Copy text" />}
        {id !== undefined && <CopyButton text={link} label="Copy link to this block" icon="link" />}
      </div>
    </div>
  );
}

function textOfRow({ block }: Extract<Row, { kind: "block" }>): string {
  switch (block.type) {
    case "user_message":
      return typeof block.content === "string" ? block.content : block.content.map((it) => (it.type === "text" ? it.text : "")).join("\n");
    case "assistant_text":
    case "thinking":
      return block.content;
    case "tool_result":
      return outputText(block.output);
    case "system":
    case "error":
      return block.message ?? "";
    case "skill_load":
      return block.content ?? "";
    case "permission":
      return JSON.stringify(block.question ?? null);
    case "unknown":
      return JSON.stringify(block.record, undefined, 2);
  }
}

function Noise({ row, onToggle }: { row: Extract<Row, { kind: "noise" }>; onToggle: () => void }) {
  const kinds = [...new Set(row.blocks.map((it) => it.subtype.replaceAll("_", " ")))].slice(0, 4).join(", ");
  return (
    <div className="noise">
      <button type="button" className="noise-button" aria-expanded={row.isOpen} onClick={onToggle}>
        {plural(row.blocks.length, "notice")} of the harness: {kinds}
        <Icon name="chevron" className={row.isOpen ? "chevron turned" : "chevron"} />
      </button>
      {row.isOpen &&
        row.blocks.map((block) => (
          <p key={block.id} className="noise-line">
            <b>{block.subtype}</b> {firstLine((block.message ?? "").replace(/<[^>]*>/g, " "), 400)}
          </p>
        ))}
    </div>
  );
}
