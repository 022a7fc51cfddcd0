// The rows of a conversation that are one block.

import type { JsonValue, MessageContentPart } from "threadfold/slim";
import { firstLine, plural } from "../lib/format.js";
import { outputParts, pictureOf } from "../model/output.js";
import type { PlainBlock } from "../model/rows.js";
import { fieldsOf, questionOf, textOf } from "../model/tool.js";
import { Icon } from "../parts/icon.js";
import { JsonTree } from "../parts/json-tree.js";
import { Markdown } from "../parts/markdown.js";
import { Terminal } from "../parts/terminal.js";
import { Fold } from "./fold.js";

export interface BodyProps {
  readonly block: PlainBlock;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

export function BlockBody({ block, isOpen, onToggle }: BodyProps) {
  const isGrowing = block.status === "pending";
  switch (block.type) {
    case "user_message":
      return (
        <div className="prompt">
          <UserContent content={block.content} />
        </div>
      );
    case "assistant_text":
      return (
        <div className={isGrowing ? "is-growing" : ""}>
          <Markdown text={block.content} isGrowing={isGrowing} />
        </div>
      );
    case "thinking": {
      const words = block.redacted === true || block.content.trim() === "" ? "hidden by the provider" : firstLine(block.content, 140);
      return (
        <Fold icon="thought" kind="thinking" name={isGrowing ? "Thinking…" : "Thought"} title={words} isOpen={isOpen} onToggle={onToggle}>
          <Markdown text={block.content === "" ? "*The provider does not reveal this text.*" : block.content} isGrowing={isGrowing} />
        </Fold>
      );
    }
    case "tool_result":
      return (
        <Fold icon="warn" kind="odd" name="Result of a call that is not known" title={block.toolUseId} isOpen={isOpen} onToggle={onToggle}>
          <Output output={block.output} isShell />
        </Fold>
      );
    case "permission":
      return <Question block={block} />;
    case "skill_load":
      return (
        <Fold icon="read" kind="quiet" name="Skill" title={block.skillName} isOpen={isOpen} onToggle={onToggle}>
          <Markdown text={block.content ?? ""} isGrowing={false} />
        </Fold>
      );
    case "error":
      return (
        <div className="problem" role="group" aria-label="Error">
          <Icon name="warn" />
          <div>
            <strong>{block.message}</strong>
            {block.code !== undefined && <code className="dim"> {typeof block.code === "string" ? block.code : JSON.stringify(block.code)}</code>}
          </div>
        </div>
      );
    case "system":
      if (block.subtype === "interrupted") {
        return (
          <div className="mark mark-odd">
            <Icon name="stop" /> {firstLine((block.message ?? "interrupted").replace(/^\[|\]$/g, ""))}
          </div>
        );
      }
      return (
        <Fold icon="fold" kind="quiet" name={block.subtype.replaceAll("_", " ")} title={firstLine(block.message ?? "")} isOpen={isOpen} onToggle={onToggle}>
          <Markdown text={block.message ?? ""} isGrowing={false} />
        </Fold>
      );
    case "unknown":
      return (
        <Fold icon="warn" kind="odd" name="Unknown record" title="The converter does not know it; this is how it came" isOpen={isOpen} onToggle={onToggle}>
          <JsonTree value={block.record} />
        </Fold>
      );
  }
}

function UserContent({ content }: { content: string | readonly MessageContentPart[] }) {
  if (typeof content === "string") return <Markdown text={content} isGrowing={false} />;
  return content.map((part, at) => {
    if (part.type === "text") return <Markdown key={at} text={part.text} isGrowing={false} />;
    const picture = part.type === "image" ? pictureOf(part.mediaType, part.data) : undefined;
    if (picture !== undefined) return <img key={at} className="picture" src={picture.source} alt="Image in the prompt" />;
    const name = textOf(fieldsOf(part as unknown as JsonValue), "name", "mediaType", "url") ?? "";
    return <span key={at} className="attachment">{part.type}: {name}</span>;
  });
}

function Question({ block }: { block: Extract<PlainBlock, { type: "permission" }> }) {
  const isOpen = block.status === "pending";
  const question = questionOf(block);
  const isSaid = typeof block.question === "string" || Object.keys(fieldsOf(block.question)).length < 2;
  const answer = block.answer === undefined ? undefined : describeAnswer(block.answer);
  return (
    <div className={`question ${isOpen ? "is-waiting" : ""}`} role="group" aria-label="Permission request">
      <Icon name="hand" />
      <div>
        <strong>{isOpen ? "Waits for you: " : ""}{question}</strong>
        {answer !== undefined && <span className="dim"> answered: {answer}</span>}
        {block.question !== undefined && !isSaid && <JsonTree value={block.question} />}
        {isOpen && <p className="dim">Answer it in the agent; this page only reads.</p>}
      </div>
    </div>
  );
}

function describeAnswer(answer: JsonValue): string {
  if (typeof answer === "string") return answer;
  return textOf(fieldsOf(answer), "behavior", "answer", "reply", "decision", "response") ?? firstLine(JSON.stringify(answer), 120);
}

/** The output of a tool, by what it is made of. */
export function Output({ output, isShell }: { output: JsonValue | undefined; isShell: boolean }) {
  const parts = outputParts(output);
  if (parts.length === 0) return <p className="dim">No output.</p>;
  return parts.map((part, at) => {
    if (part.kind === "image") return <img key={at} className="picture" src={part.picture.source} alt={`Image that the tool returned, ${plural(Math.round(part.picture.source.length * 0.75 / 1024), "KB", "KB")}`} />;
    if (part.kind === "json") return <JsonTree key={at} value={part.value} />;
    const json = isShell ? undefined : parseJson(part.text);
    return json === undefined ? <Terminal key={at} text={part.text} /> : <JsonTree key={at} value={json} />;
  });
}

/** Returns text as JSON, if it is an object or a list. */
function parseJson(text: string): JsonValue | undefined {
  if (!/^\s*[[{]/.test(text) || text.length > 200_000) return undefined;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
