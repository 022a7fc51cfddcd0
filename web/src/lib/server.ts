// The server that this page came from.

import { ConnectError } from "threadfold/slim";

export interface Server {
  readonly url: string;
  readonly token: string | undefined;
}

/** Sends a request with the token, and throws what the server has against it. */
export async function fetchFrom(server: Server, path: string, signal?: AbortSignal): Promise<Response> {
  const headers: HeadersInit = server.token === undefined ? {} : { authorization: `Bearer ${server.token}` };
  const response = await fetch(new URL(path, server.url), signal === undefined ? { headers } : { headers, signal });
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as { detail?: string };
    throw new ConnectError(problem.detail ?? `${path} answered ${response.status}`, response.status);
  }
  return response;
}

export async function fetchJson<T>(server: Server, path: string, signal?: AbortSignal): Promise<T> {
  return (await (await fetchFrom(server, path, signal)).json()) as T;
}

export function isUnauthorized(error: unknown): boolean {
  return error instanceof ConnectError && error.status === 401;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
