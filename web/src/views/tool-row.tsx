import { lazy, Suspense } from "react";
import { formatDuration } from "../lib/format.js";
import { editsOf } from "../model/edit.js";
import { outputParts, outputText } from "../model/output.js";
import type { Row } from "../model/rows.js";
import { durationOf, fieldsOf, type Outcome, outcomeOf, summarizeTool, textOf } from "../model/tool.js";
import { Code } from "../parts/code.js";
import { CopyButton } from "../parts/copy.js";
import { Icon, type IconName } from "../parts/icon.js";
import { JsonTree } from "../parts/json-tree.js";
import { Terminal } from "../parts/terminal.js";
import { Output } from "./block-body.js";
import { Fold } from "./fold.js";

const Edits = lazy(() => import("../parts/diff.js"));

const OUTCOMES: Record<Outcome, { icon: IconName; label: string }> = {
  running: { icon: "clock", label: "running" },
  done: { icon: "check", label: "done" },
  failed: { icon: "cross", label: "failed" },
  interrupted: { icon: "stop", label: "interrupted" },
  waiting: { icon: "hand", label: "waits for permission" },
  unknown: { icon: "warn", label: "outcome unknown" },
};

type ToolRowData = Extract<Row, { kind: "tool" }>;

export function ToolRow({ row, isOpen, onToggle }: { row: ToolRowData; isOpen: boolean; onToggle: () => void }) {
  const { block, result, question } = row;
  const { kind, name, title } = summarizeTool(block);
  const outcome = outcomeOf(block, result, question);
  const duration = durationOf(block, result);
  const edits = kind === "edit" ? editsOf(block, result) : [];
  const sum = (of: "added" | "removed") => edits.reduce((all, edit) => all + edit[of], 0);
  const hasImage = result !== undefined && outputParts(result.output).some((it) => it.kind === "image");
  const after = (
    <>
      {hasImage && <span className="tag">image</span>}
      {edits.length > 0 && (
        <span className="counts">
          <span className="added">+{sum("added")}</span> <span className="removed">−{sum("removed")}</span>
        </span>
      )}
      {duration !== undefined && <span className="time">{formatDuration(duration)}</span>}
      <span className={`outcome outcome-${outcome}`} title={OUTCOMES[outcome].label}>
        <Icon name={OUTCOMES[outcome].icon} />
        <span className="unseen">{OUTCOMES[outcome].label}</span>
        {(outcome === "interrupted" || outcome === "waiting" || outcome === "unknown") && <span>{OUTCOMES[outcome].label}</span>}
      </span>
    </>
  );
  return (
    <Fold icon={kind} kind={`tool is-${outcome}`} name={name} title={title} isOpen={isOpen} onToggle={onToggle} after={after}>
      <Input row={row} />
      {edits.length > 0 && (
        <Suspense fallback={<p className="dim">Loading…</p>}>
          <Edits edits={edits} />
        </Suspense>
      )}
      {result === undefined ? (
        <p className="dim">{outcome === "running" ? "No output yet." : "There is no result."}</p>
      ) : (
        <section aria-label="Output" className="io">
          <h4>
            {result.isError === true ? "Error" : "Output"}
            <CopyButton text={() => outputText(result.output)} label="Copy output" />
          </h4>
          <div className={result.isError === true ? "is-error" : ""}>
            <Output output={result.output} isShell={kind === "shell" || kind === "read"} />
          </div>
        </section>
      )}
    </Fold>
  );
}

function Input({ row: { block, result } }: { row: ToolRowData }) {
  const input = fieldsOf(block.input);
  const { kind } = summarizeTool(block);
  const command = kind === "shell" ? textOf(input, "command", "cmd", "script") : undefined;
  if (command !== undefined) {
    return (
      <section aria-label="Command" className="io">
        <h4>
          {textOf(input, "description") ?? "Command"}
          <CopyButton text={() => command} label="Copy command" />
        </h4>
        <Code text={command} language="bash" />
      </section>
    );
  }
  // What a diff shows is not shown twice.
  if (kind === "edit" && editsOf(block, result).length > 0) {
    const path = textOf(input, "file_path", "filePath", "path");
    return path === undefined ? null : (
      <section aria-label="File" className="io">
        <h4>
          <code>{path}</code>
          <CopyButton text={() => path} label="Copy path" />
        </h4>
      </section>
    );
  }
  if (block.input === undefined) return block.inputText === undefined ? null : <Terminal text={block.inputText} label="Input" />;
  return (
    <section aria-label="Input" className="io">
      <h4>
        Input
        <CopyButton text={() => JSON.stringify(block.input, undefined, 2)} label="Copy input" />
      </h4>
      <JsonTree value={block.input} />
    </section>
  );
}
