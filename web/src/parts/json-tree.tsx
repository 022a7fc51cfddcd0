import { memo, useState } from "react";
import type { JsonValue } from "threadfold/slim";
import { plural } from "../lib/format.js";
import { Icon } from "./icon.js";

const MOST_CHILDREN = 100;
const LONG_TEXT = 2_000;

/** JSON as a tree whose deeper parts are opened when they are wanted. */
export const JsonTree = memo(({ value, name, depth = 0 }: { value: JsonValue; name?: string; depth?: number }) => {
  const isNested = typeof value === "object" && value !== null;
  const entries = isNested ? Object.entries(value) : [];
  const [isOpen, setOpen] = useState(depth < 1);
  const [most, setMost] = useState(MOST_CHILDREN);
  const label = name === undefined ? null : <span className="json-name">{name}</span>;
  if (!isNested) {
    return (
      <div className="json-line">
        {label}
        <Scalar value={value} />
      </div>
    );
  }
  const kind = Array.isArray(value) ? plural(entries.length, "item") : plural(entries.length, "field");
  return (
    <div className="json-node">
      <button type="button" className="json-line json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="chevron" className={isOpen ? "turned" : ""} />
        {label}
        <span className="dim">{kind}</span>
      </button>
      {isOpen && (
        <div className="json-children">
          {entries.slice(0, most).map(([key, child]) => (
            <JsonTree key={key} name={key} value={child as JsonValue} depth={depth + 1} />
          ))}
          {entries.length > most && (
            <button type="button" className="show-all" onClick={() => setMost(most * 10)}>
              Show more of {plural(entries.length, "item")}
            </button>
          )}
        </div>
      )}
    </div>
  );
});

function Scalar({ value }: { value: JsonValue }) {
  const [showsAll, setShowsAll] = useState(false);
  if (typeof value !== "string") return <span className="json-scalar">{String(value)}</span>;
  const isCut = value.length > LONG_TEXT && !showsAll;
  return (
    <span className="json-text">
      {isCut ? `${value.slice(0, LONG_TEXT)}…` : value}
      {isCut && (
        <button type="button" className="show-all" onClick={() => setShowsAll(true)}>
          Show all {plural(value.length, "character")}
        </button>
      )}
    </span>
  );
}
