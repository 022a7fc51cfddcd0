import Anser from "anser";
import { memo, useMemo, useState } from "react";
import { plural } from "../lib/format.js";

/** So many lines are shown before the user asks for all. */
const FIRST = 40;

/** Whatever moves the cursor, sets titles or links has no meaning on a page. */
// eslint-disable-next-line no-control-regex
const OTHER_CONTROLS = /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b\[[0-9;?]*[A-LN-Za-ln-z]|\u001b[()][A-Z0-9]|[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;

/** Returns what a terminal would still show of a line that was written over. */
function settle(line: string): string {
  const end = line.replace(/\r+$/, "");
  return end.slice(end.lastIndexOf("\r") + 1);
}

/** The output of a shell, in its own colours. */
export const Terminal = memo(({ text, label = "Output" }: { text: string; label?: string }) => {
  const [showsAll, setShowsAll] = useState(false);
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n").map(settle), [text]);
  const isCut = lines.length > FIRST + 5 && !showsAll;
  const shown = (isCut ? lines.slice(0, FIRST) : lines).join("\n").replace(OTHER_CONTROLS, "");
  const spans = useMemo(() => Anser.ansiToJson(shown, { use_classes: true, remove_empty: true }), [shown]);
  return (
    <div className="terminal">
      <pre tabIndex={0} aria-label={label}>
        {spans.map((span, at) => {
          const names = [span.fg, span.bg === null || span.bg === undefined ? undefined : `${span.bg}-back`, ...span.decorations.map((it) => `ansi-${it}`)];
          const className = names.filter((it) => it !== null && it !== undefined && /^ansi-[a-z-]+$/.test(it)).join(" ");
          return className === "" ? span.content : <span key={at} className={className}>{span.content}</span>;
        })}
      </pre>
      {isCut && (
        <button type="button" className="show-all" onClick={() => setShowsAll(true)}>
          Show all {plural(lines.length, "line")}
        </button>
      )}
    </div>
  );
});
