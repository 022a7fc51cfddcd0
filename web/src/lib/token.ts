// The server's token: it comes in the fragment of the link, which no server sees, and is kept for
// this origin. It is removed from the address, so that it is neither bookmarked nor shared.

const KEY = "threadfold.token";

/** Takes the token out of the address, if it is there, and returns the one to use. */
export function takeToken(): string | undefined {
  const match = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  if (match !== null) {
    const [, token = "", rest = ""] = match;
    store(decodeURIComponent(token));
    history.replaceState(null, "", `${location.pathname}${rest === "" ? "" : `#${rest}`}`);
  }
  return read();
}

export function setToken(token: string): void {
  store(token.trim());
}

function read(): string | undefined {
  try {
    return localStorage.getItem(KEY) ?? undefined;
  } catch {
    // Storage can be forbidden; the token then lasts as long as the page.
    return memory;
  }
}

let memory: string | undefined;

function store(token: string): void {
  memory = token;
  try {
    localStorage.setItem(KEY, token);
  } catch {
    // See above.
  }
}
