// The frame of the page: where the user is, the palette, the keys and the theme.

import { useState } from "react";
import { cycleTheme, useSettings } from "./lib/settings.js";
import { useKeys } from "./lib/keys.js";
import { go, useRoute } from "./lib/route.js";
import type { Server } from "./lib/server.js";
import { Icon } from "./parts/icon.js";
import { Help } from "./views/help.js";
import { Palette } from "./views/palette.js";
import { SessionView } from "./views/session.js";
import { SessionsView } from "./views/sessions.js";

export function App({ server }: { server: Server }) {
  const route = useRoute();
  const { theme } = useSettings();
  const [overlay, setOverlay] = useState<"palette" | "help">();
  useKeys([
    { keys: ["mod+k"], label: "Command palette", run: () => setOverlay("palette"), inFields: true },
    { keys: ["?"], label: "Keys", run: () => setOverlay("help") },
    { keys: ["g s"], label: "All sessions", run: () => go({ page: "sessions" }) },
    { keys: ["D"], label: "Next theme", run: cycleTheme },
  ]);
  return (
    <>
      <a className="skip" href="#content" onClick={(event) => {
        event.preventDefault();
        document.querySelector<HTMLElement>("#content article, #content a, #content button")?.focus();
      }}>Skip to the content</a>
      <div className="page">
        {route.page === "sessions" ? <SessionsView server={server} /> : <SessionView key={route.session} server={server} route={route} />}
      </div>
      <footer className="page-foot">
        <a className="brand" href="#/">Threadfold</a>
        <span className="spring" />
        <button type="button" className="quiet" onClick={() => setOverlay("palette")}><kbd>Ctrl K</kbd> Find</button>
        <button type="button" className="quiet" onClick={() => setOverlay("help")}><kbd>?</kbd> Keys</button>
        <button type="button" className="quiet" aria-label={`Theme: ${theme}`} title={`Theme: ${theme} (Shift D)`} onClick={cycleTheme}>
          <Icon name="theme" /> {theme}
        </button>
      </footer>
      {overlay === "palette" && <Palette server={server} onClose={() => setOverlay(undefined)} />}
      {overlay === "help" && <Help onClose={() => setOverlay(undefined)} />}
    </>
  );
}
