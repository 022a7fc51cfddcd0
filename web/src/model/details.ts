// What the server knows of a session beside its conversation: title, cost, tokens of each message.

import { useEffect, useRef, useState } from "react";
import type { CatalogRow, TokenUsage } from "threadfold/slim";
import { fetchJson, isUnauthorized, type Server } from "../lib/server.js";

interface MetadataItem {
  readonly title?: string | null;
  readonly model?: string | null;
  readonly cwd?: string | null;
  readonly costUsd?: number | null;
  readonly startedAt?: string | null;
  readonly endedAt?: string | null;
  readonly messages?: readonly (readonly [string, MessageUsage])[];
}

interface MessageUsage {
  readonly conversation: string;
  readonly tokens: TokenUsage;
}

interface SessionDocument extends CatalogRow {
  readonly seq: number;
  readonly slices: {
    readonly metadata?: readonly MetadataItem[];
    readonly query?: readonly { readonly status: string; readonly waiting?: readonly string[] }[];
    readonly files?: readonly { readonly path: string; readonly status: string }[];
  };
}

export interface Details {
  readonly row: CatalogRow;
  readonly title: string | undefined;
  readonly model: string | undefined;
  readonly folder: string | undefined;
  readonly costUsd: number | undefined;
  /** The tokens of each message of a model, by its id. */
  readonly messages: ReadonlyMap<string, TokenUsage>;
  /** The tokens of each conversation, without its subagents. */
  readonly conversations: ReadonlyMap<string, TokenUsage>;
  readonly isRunning: boolean;
}

export const NO_TOKENS: TokenUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheCreationTokens: 0,
};

export function addTokens(one: TokenUsage, other: TokenUsage): TokenUsage {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cacheReadTokens: one.cacheReadTokens + other.cacheReadTokens,
    cacheCreationTokens: one.cacheCreationTokens + other.cacheCreationTokens,
  };
}

/** How much tokens weigh in a bill: agents report one cost for the session, and not for its parts. */
function weight({ inputTokens, outputTokens, cacheReadTokens, cacheCreationTokens }: TokenUsage): number {
  return inputTokens + outputTokens * 5 + cacheReadTokens * 0.1 + cacheCreationTokens * 1.25;
}

/** Returns the part of a session's cost that tokens stand for, as an estimate. */
export function shareOfCost(details: Details, tokens: TokenUsage): number | undefined {
  if (details.costUsd === undefined) return undefined;
  let all = 0;
  for (const usage of details.conversations.values()) all += weight(usage);
  return all === 0 ? undefined : (details.costUsd * weight(tokens)) / all;
}

function read(document: SessionDocument): Details {
  const metadata = document.slices.metadata?.[0];
  const messages = new Map<string, TokenUsage>();
  const conversations = new Map<string, TokenUsage>();
  for (const [id, { conversation, tokens }] of metadata?.messages ?? []) {
    messages.set(id, tokens);
    conversations.set(conversation, addTokens(conversations.get(conversation) ?? NO_TOKENS, tokens));
  }
  return {
    row: document,
    title: metadata?.title ?? document.title ?? document.firstPrompt ?? undefined,
    model: metadata?.model ?? document.model ?? undefined,
    folder: metadata?.cwd ?? document.project,
    costUsd: metadata?.costUsd ?? document.costUsd ?? undefined,
    messages,
    conversations,
    isRunning: document.slices.query?.at(-1)?.status === "running",
  };
}

/** How often they are read at most while the session grows. */
const INTERVAL = 2_000;
/** A long session has many messages: reading them takes at most this share of the time. */
const SHARE = 0.05;

/** Returns the details of a session, read again while the session grows. */
export function useDetails(server: Server, id: string, seq: number | undefined): Details | undefined {
  const [details, setDetails] = useState<{ id: string; details: Details }>();
  const readAt = useRef(0);
  const took = useRef(0);
  useEffect(() => {
    if (seq === undefined) return;
    const abort = new AbortController();
    const wait = Math.max(0, readAt.current + Math.max(INTERVAL, took.current / SHARE) - Date.now());
    const timer = setTimeout(() => {
      readAt.current = Date.now();
      fetchJson<SessionDocument>(server, `/v1/sessions/${encodeURIComponent(id)}`, abort.signal).then(
        (document) => {
          setDetails({ id, details: read(document) });
          took.current = Date.now() - readAt.current;
        },
        (error: unknown) => {
          // The connection reports what is wrong; the next record tries again.
          if (!abort.signal.aborted && !isUnauthorized(error)) console.warn("details were not read", error);
        },
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      // A request that was sent is not wasted while records keep coming.
      if (Date.now() < readAt.current) abort.abort();
    };
  }, [server, id, seq]);
  return details?.id === id ? details.details : undefined;
}
