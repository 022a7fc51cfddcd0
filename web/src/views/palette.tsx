// The command palette: sessions, blocks of the open session, and everything that can be done.

import { Command } from "cmdk";
import { useEffect, useMemo, useRef, useState } from "react";
import type { CatalogRow } from "threadfold/slim";
import { firstLine } from "../lib/format.js";
import { activeKeys } from "../lib/keys.js";
import { go, type Route, sessionRoute } from "../lib/route.js";
import { fetchJson, type Server } from "../lib/server.js";
import { changeSettings } from "../lib/settings.js";
import { searchText, type TextSearch } from "../model/text-search.js";
import { findBlocks, offeredRoute } from "./palette-source.js";
import { filterSessions } from "./sessions.js";

const MOST = 12;

interface CommandEntry {
  readonly name: string;
  readonly run: () => void;
}

export function Palette({ server, onClose }: { server: Server; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [selected, select] = useState("");
  const [sessions, setSessions] = useState<readonly CatalogRow[]>([]);
  const commands = useMemo(() => [...settingsCommands(), ...keyCommands()], []);
  useEffect(() => {
    dialog.current?.showModal();
    // A dialog focuses its first element, and that is not the field.
    field.current?.focus();
    const abort = new AbortController();
    fetchJson<{ sessions: CatalogRow[] }>(server, "/v1/sessions?limit=1000", abort.signal)
      .then((page) => setSessions(page.sessions))
      .catch(() => {
        // Without the server, commands and blocks are still there.
      });
    return () => abort.abort();
  }, [server]);
  const run = (action: () => void) => {
    onClose();
    action();
  };
  const goTo = (route: Route) => run(() => go(route));
  const wanted = text.toLowerCase();
  const isMeant = (entry: CommandEntry) => wanted.split(/\s+/).every((word) => entry.name.toLowerCase().includes(word));
  const blocks = findBlocks(text.trim(), MOST);
  const found = filterSessions(sessions, text).slice(0, text === "" ? 5 : MOST);
  const meant = commands.filter(isMeant);
  const search = useTextSearch(server, sessions, text.trim());
  const first = blocks[0] !== undefined ? `block ${blocks[0].key}` : found[0] !== undefined ? `session ${found[0].id}` : `command ${meant[0]?.name ?? ""}`;
  useEffect(() => select(first), [first]);
  return (
    <dialog ref={dialog} className="palette" aria-label="Command palette" onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <Command shouldFilter={false} loop label="Command palette" value={selected} onValueChange={select}>
        <Command.Input ref={field} value={text} onValueChange={setText} placeholder={offeredRoute() === undefined ? "Find a session or a command" : "Find a block, a session or a command"} />
        <Command.List>
          <Command.Empty>Nothing found.</Command.Empty>
          {blocks.length > 0 && (
            <Command.Group heading="In this session">
              {blocks.map((it) => (
                <Command.Item key={it.key} value={`block ${it.key}`} onSelect={() => goTo(it.route)}>
                  <span className="palette-kind">{it.kind}</span>
                  <span className="palette-words">{it.words}</span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {found.length > 0 && (
            <Command.Group heading="Sessions">
              {found.map((row) => (
                <Command.Item key={row.id} value={`session ${row.id}`} onSelect={() => goTo(sessionRoute(row.id))}>
                  <span className="palette-kind">{row.agent}</span>
                  <span className="palette-words">{firstLine(row.title ?? row.firstPrompt ?? row.id, 120)}</span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {search !== undefined && (
            <Command.Group heading={`In the text of sessions, ${search.searched} of ${search.total} searched`}>
              {search.matches.slice(0, MOST).map(({ row, line, count }) => (
                <Command.Item key={row.id} value={`text ${row.id}`} onSelect={() => goTo(sessionRoute(row.id))}>
                  <span className="palette-kind">{firstLine(row.title ?? row.firstPrompt ?? row.id, 60)}</span>
                  <span className="palette-words">{firstLine(line, 160)}</span>
                  <span className="palette-kind">{count > 1 ? `${count} lines` : ""}</span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {meant.length > 0 && (
            <Command.Group heading="Commands">
              {meant.map((entry) => (
                <Command.Item key={entry.name} value={`command ${entry.name}`} onSelect={() => run(entry.run)}>
                  <span className="palette-words">{entry.name}</span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
        </Command.List>
      </Command>
    </dialog>
  );
}

/** Searches the text of all sessions, once the user has stopped typing. */
function useTextSearch(server: Server, rows: readonly CatalogRow[], text: string): TextSearch | undefined {
  const [found, setFound] = useState<TextSearch>();
  useEffect(() => {
    setFound(undefined);
    if (text.length < 3 || rows.length === 0) return;
    const abort = new AbortController();
    const timer = setTimeout(() => void searchText(server, rows, text, abort.signal, setFound), 350);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [server, rows, text]);
  return found;
}

function settingsCommands(): CommandEntry[] {
  return [
    { name: "Light theme", run: () => changeSettings({ theme: "light" }) },
    { name: "Dark theme", run: () => changeSettings({ theme: "dark" }) },
    { name: "Theme of the system", run: () => changeSettings({ theme: "system" }) },
  ];
}

/** Whatever has a key is a command as well. */
function keyCommands(): CommandEntry[] {
  const isPaletteItself = (label: string) => label === "Command palette";
  return activeKeys()
    .filter((it) => !isPaletteItself(it.label))
    .map((it) => ({ name: it.label, run: () => it.run(new KeyboardEvent("keydown")) }));
}
