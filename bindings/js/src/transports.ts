// The two ways to receive a session's frames, each one connection.

import { REDUCER } from "./generated/types.js";
import { readEvents } from "./server-sent-events.js";

/** A way to a server. */
export interface ServerAddress {
  /** The server, such as `http://127.0.0.1:4127`. */
  readonly url: string | URL;
  /** The server's token. */
  readonly token?: string;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/** A request whose answer goes on until it is aborted. */
export interface StreamRequest extends ServerAddress {
  readonly signal: AbortSignal;
  readonly WebSocket?: WebSocketClass;
}

export interface FrameRequest extends StreamRequest {
  readonly session: string;
  readonly after: string | undefined;
  readonly view: "events" | "changes";
}

/** The class of WebSockets, where there is no global one. */
export type WebSocketClass = new (url: string) => WebSocket;

/** Why a server cannot be used. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
  /** The status of the answer, if there was one. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
  }

  /** Another attempt may succeed. */
  get isTemporary(): boolean {
    const { status } = this;
    return status === undefined || status === 408 || status === 429 || status >= 500;
  }
}

/** Sends a request, and throws what the server has against it. */
export async function request(
  address: ServerAddress,
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  const headers = new Headers(init.headers);
  if (address.token !== undefined) headers.set("authorization", `Bearer ${address.token}`);
  const send = address.fetch ?? fetch;
  let response: Response;
  try {
    response = await send(new URL(path, address.url), { ...init, headers });
  } catch (cause) {
    throw new ConnectError(`${String(address.url)} cannot be reached`, undefined, cause);
  }
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as { detail?: string };
    throw new ConnectError(problem.detail ?? `${path} answered ${response.status}`, response.status);
  }
  return response;
}

/** Yields frames as text, over server-sent events. */
export async function* framesOverEvents(it: FrameRequest): AsyncGenerator<string[]> {
  const query = new URLSearchParams(it.view === "events" ? { view: "events", reducer: `${REDUCER}` } : {});
  const headers = it.after === undefined ? {} : { "last-event-id": it.after };
  const path = `/v1/sessions/${encodeURIComponent(it.session)}/stream?${query.toString()}`;
  const response = await request(it, path, { headers, signal: it.signal });
  if (response.body === null) throw new ConnectError("the answer has no body");
  yield* readEvents(response.body);
}

/** Yields the frames of a session as text, over a WebSocket. */
export function framesOverWebSocket(it: FrameRequest): AsyncGenerator<string[]> {
  const { session: sessionId, after, view } = it;
  return subscribe(it, { type: "subscribe", sessionId, after, view, reducer: REDUCER });
}

/** Yields the frames of a subscription as text, over a WebSocket with a ticket of its own. */
export async function* subscribe(it: StreamRequest, subscription: object): AsyncGenerator<string[]> {
  const answer = await request(it, "/v1/tickets", { method: "POST", signal: it.signal });
  const { ticket } = (await answer.json()) as { ticket: string };
  const url = new URL(`/v1/live?ticket=${encodeURIComponent(ticket)}`, it.url);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const Class = it.WebSocket ?? globalThis.WebSocket;
  const socket = new Class(url.href);
  let frames: string[] = [];
  let isOpen = true;
  let wake = () => {};
  const close = () => {
    isOpen = false;
    wake();
  };
  socket.onopen = () => socket.send(JSON.stringify(subscription));
  socket.onmessage = ({ data }) => {
    frames.push(String(data));
    wake();
  };
  socket.onclose = close;
  socket.onerror = close;
  it.signal.addEventListener("abort", close);
  try {
    for (;;) {
      if (frames.length > 0) {
        const taken = frames;
        frames = [];
        yield taken;
      } else if (!isOpen) {
        return;
      } else {
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
  } finally {
    it.signal.removeEventListener("abort", close);
    // Closing a socket that is not open yet is an error of the socket, and not of anybody here.
    socket.onclose = socket.onerror = () => {};
    socket.close();
  }
}
