import { useState } from "react";
import { setToken } from "../lib/token.js";

/** What to do when the server does not let the page in. */
export function TokenNeeded() {
  const [token, change] = useState("");
  return (
    <main className="empty token-form" id="content">
      <h1>Threadfold</h1>
      <p>
        This page needs the server's token. Open the link that <code>threadfold serve</code> prints, or paste the token from its token file.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setToken(token);
          location.reload();
        }}
      >
        <label>
          Token
          <input type="password" autoComplete="off" value={token} onChange={(event) => change(event.target.value)} />
        </label>
        <button type="submit" disabled={token.trim() === ""}>Open</button>
      </form>
    </main>
  );
}
