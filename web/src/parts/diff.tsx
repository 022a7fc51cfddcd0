// Changes of files. Loaded when one is opened.

import { memo, useMemo, useState } from "react";
import { Diff, Hunk, parseDiff } from "react-diff-view";
import type { FileEdit } from "../model/edit.js";
import { plural } from "../lib/format.js";

const MOST_LINES = 400;

const FileDiff = memo(({ edit }: { edit: FileEdit }) => {
  const [showsAll, setShowsAll] = useState(false);
  const file = useMemo(() => {
    try {
      return parseDiff(normalize(edit.patch), { nearbySequences: "zip" })[0];
    } catch {
      // What is not a unified diff is shown as it is.
      return undefined;
    }
  }, [edit]);
  if (file === undefined || file.hunks.length === 0) return <pre className="code" tabIndex={0} aria-label="Changes">{edit.patch}</pre>;
  const lines = file.hunks.reduce((sum, hunk) => sum + hunk.changes.length, 0);
  const isCut = lines > MOST_LINES && !showsAll;
  const hunks = isCut ? cut(file.hunks) : file.hunks;
  return (
    <figure className="file-diff" aria-label={`Changes of ${edit.path}`}>
      <div className="diff-scroll" tabIndex={0} role="group" aria-label="Changed lines">
        <Diff viewType="unified" diffType="modify" hunks={hunks} gutterType="default">
          {(all) => all.map((hunk) => <Hunk key={hunk.content} hunk={hunk} />)}
        </Diff>
      </div>
      {isCut && (
        <button type="button" className="show-all" onClick={() => setShowsAll(true)}>
          Show all {plural(lines, "line")}
        </button>
      )}
    </figure>
  );
});

/** The parser wants the header of git. */
function normalize(patch: string): string {
  const start = patch.search(/^--- /m);
  return start < 0 ? patch : `diff --git a/file b/file\n${patch.slice(start)}`;
}

type Hunks = NonNullable<ReturnType<typeof parseDiff>[number]>["hunks"];

function cut(hunks: Hunks): Hunks {
  let room = MOST_LINES;
  return hunks.flatMap((hunk) => {
    if (room <= 0) return [];
    const changes = hunk.changes.slice(0, room);
    room -= changes.length;
    return [{ ...hunk, changes }];
  });
}

export default function Edits({ edits }: { edits: readonly FileEdit[] }) {
  return edits.map((edit, at) => <FileDiff key={at} edit={edit} />);
}
