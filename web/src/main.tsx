import { Component, type ReactNode, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { init } from "threadfold/slim";
import wasm from "threadfold/threadfold-core.wasm?url";
import { App } from "./app.js";
import { messageOf } from "./lib/server.js";
import { applyTheme } from "./lib/settings.js";
import { takeToken } from "./lib/token.js";
import "./styles/theme.css";
import "./styles/page.css";
import "./styles/conversation.css";
import "./styles/parts.css";

/** What is left when the page itself is wrong: what happened, and a way back. */
class Boundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === undefined) return this.props.children;
    return (
      <main className="empty" role="alert">
        <h1>The page has a defect</h1>
        <p>{messageOf(this.state.error)}</p>
        <p><a href="/" onClick={() => location.reload()}>Load it again</a></p>
      </main>
    );
  }
}

applyTheme();
const server = { url: location.origin, token: takeToken() };
const root = createRoot(document.getElementById("root")!);
init(wasm).then(
  () =>
    root.render(
      <StrictMode>
        <Boundary>
          <App server={server} />
        </Boundary>
      </StrictMode>,
    ),
  (error: unknown) => root.render(<p className="empty" role="alert">The reducer cannot be loaded: {messageOf(error)}</p>),
);
