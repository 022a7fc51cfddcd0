// Where the user is, as the fragment of the address: links, history and reloads work without the
// server knowing any of it.

import { useSyncExternalStore } from "react";

export type View = "conversation" | "timeline";

export interface SessionRoute {
  readonly page: "session";
  readonly session: string;
  /** The conversations from the session's down to the open one, without the main one. */
  readonly conversation: string | undefined;
  readonly view: View;
  /** The record whose state is shown; the present, if absent. */
  readonly at: number | undefined;
  /** The block that is shown. */
  readonly block: string | undefined;
}

export type Route = { readonly page: "sessions" } | SessionRoute;

/** Returns the route of a fragment. What is not understood leads to the list. */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const [, first, id, second, conversation] = path.split("/");
  if (first !== "s" || id === undefined || id === "") return { page: "sessions" };
  const parameters = new URLSearchParams(query);
  const at = parameters.get("at");
  return {
    page: "session",
    session: decode(id),
    conversation: second === "a" && conversation !== undefined ? decode(conversation) : undefined,
    view: parameters.get("view") === "timeline" ? "timeline" : "conversation",
    at: at !== null && /^\d{1,15}$/.test(at) ? Number(at) : undefined,
    block: parameters.get("block") ?? undefined,
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the fragment of a route. */
export function formatRoute(route: Route): string {
  if (route.page === "sessions") return "#/";
  const { session, conversation, view, at, block } = route;
  const parameters = new URLSearchParams();
  if (view !== "conversation") parameters.set("view", view);
  if (at !== undefined) parameters.set("at", String(at));
  if (block !== undefined) parameters.set("block", block);
  const inner = conversation === undefined ? "" : `/a/${encodeURIComponent(conversation)}`;
  const query = parameters.toString();
  return `#/s/${encodeURIComponent(session)}${inner}${query === "" ? "" : `?${query}`}`;
}

export function sessionRoute(session: string, more: Partial<SessionRoute> = {}): SessionRoute {
  const rest = { conversation: undefined, view: "conversation", at: undefined, block: undefined } as const;
  return { page: "session", ...rest, ...more, session };
}

export function go(route: Route): void {
  const hash = formatRoute(route);
  if (location.hash !== hash) location.hash = hash;
}

/** Changes the address without a new entry in the history: for what changes continuously. */
export function replaceRoute(route: Route): void {
  const hash = formatRoute(route);
  if (location.hash === hash) return;
  history.replaceState(null, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

let hash = "";
let current: Route = { page: "sessions" };

function read(): Route {
  if (hash !== location.hash) {
    hash = location.hash;
    current = parseRoute(hash);
  }
  return current;
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, read);
}
