// Hooks for React 18 and 19. Nothing starts while rendering: sources run while they are watched.

import {
  createContext,
  createElement,
  type FunctionComponent,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
} from "react";
import type { Block, ConversationState, Subagent } from "./generated/types.js";
import type { ConnectionStatus, ConnectOptions } from "./connect.js";
import { findBlock, findSubagent } from "./find.js";
import { type ConversationSource, createSource, type RunningSource } from "./source.js";
import { followSessions, NO_SESSIONS, type SessionsList, type SessionsQuery } from "./sessions.js";
import { createInitialConversationState } from "./state.js";

export type { ConversationSource, DispatchSource } from "./source.js";
export type { SessionsList, SessionsQuery } from "./sessions.js";
export { listSessions } from "./sessions.js";

/** What the hooks take beside a source. */
export interface HookOptions {
  /** The state before the source has any, and on a server that renders. */
  readonly initial?: ConversationState;
}

/** A session of a server. */
export interface SessionView {
  readonly state: ConversationState;
  readonly status: ConnectionStatus;
  readonly cursor: string | undefined;
}

const Current = createContext<RunningSource | undefined>(undefined);
let empty: ConversationState | undefined;

function emptyState(): ConversationState {
  return (empty ??= createInitialConversationState());
}

/** Options are mostly written in place, so equal ones are the same source. */
function keyOf(source: ConversationSource): unknown {
  if (typeof source === "function" || !("url" in source)) return source;
  const { url, token, session, after, view, transport } = source;
  return JSON.stringify([String(url), token, session, after, view, transport]);
}

function useSource(source: ConversationSource, initial: ConversationState | undefined): RunningSource {
  const key = keyOf(source);
  // A store is made once per source; that costs nothing until it is watched.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  return useMemo(() => createSource(source, initial), [key]);
}

function useSourceState(source: RunningSource, initial: ConversationState | undefined): ConversationState {
  const onServer = useCallback(() => initial ?? emptyState(), [initial]);
  return useSyncExternalStore(source.watch, source.store.getState, onServer);
}

/**
 * Returns the state of a conversation: of a session of a server, of an async iterable of events, of
 * a function that gets a `dispatch`, or of a store.
 */
export function useConversationState(
  source: ConversationSource,
  options: HookOptions = {},
): ConversationState {
  return useSourceState(useSource(source, options.initial), options.initial);
}

/** Returns a session of a server: its state, and how the connection is. */
export function useSession(options: ConnectOptions, { initial }: HookOptions = {}): SessionView {
  const source = useSource(options, initial);
  const state = useSourceState(source, initial);
  const status = useSyncExternalStore(source.watch, source.getStatus, source.getStatus);
  const cursor = source.getCursor();
  return useMemo(() => ({ state, status, cursor }), [state, status, cursor]);
}

/** Returns the sessions of a server, kept up to date. */
export function useSessions(query: SessionsQuery): SessionsList {
  const [list, setList] = useState<SessionsList>(NO_SESSIONS);
  const { url, token, agent, project, text, live, limit, transport } = query;
  const key = JSON.stringify([String(url), token, agent, project, text, live, limit, transport]);
  useEffect(() => {
    const abort = new AbortController();
    void followSessions(query, setList, abort.signal);
    return () => abort.abort();
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key]);
  return list;
}

export interface ConversationProviderProps extends HookOptions {
  readonly source: ConversationSource;
  readonly children?: ReactNode;
}

/** Offers a conversation to the hooks below it. It does not render again when the state changes. */
export const ConversationProvider: FunctionComponent<ConversationProviderProps> = ({
  source,
  initial,
  children,
}) => createElement(Current.Provider, { value: useSource(source, initial) }, children);

function useCurrent(hook: string): RunningSource {
  const source = useContext(Current);
  if (source === undefined) throw new Error(`${hook} needs a <ConversationProvider> above it`);
  return source;
}

/** Returns the state of the conversation that a provider offers. */
export function useCurrentConversation(): ConversationState {
  return useSourceState(useCurrent("useCurrentConversation"), undefined);
}

/** Returns the ids of the blocks of a conversation. They are the same list until one of them differs. */
export function useBlockIds(conversation = "main"): readonly string[] {
  const source = useCurrent("useBlockIds");
  const read = useMemo(() => {
    let before: readonly string[] = [];
    let blocks: readonly Block[] | undefined;
    return () => {
      const state = source.store.getState();
      const next = conversation === "main" ? state.blocks : findSubagent(state, conversation)?.blocks;
      if (next === blocks) return before;
      blocks = next;
      const ids = (next ?? []).map((block) => block.id);
      const isSame = ids.length === before.length && ids.every((id, index) => id === before[index]);
      return isSame ? before : (before = ids);
    };
  }, [source, conversation]);
  return useSyncExternalStore(source.watch, read, read);
}

/**
 * Returns a block of the conversation that a provider offers, in whatever conversation it is. Only a
 * component whose block changed renders again.
 */
export function useBlock(id: string): Block | undefined {
  const source = useCurrent("useBlock");
  const subscribe = useCallback(
    (listener: () => void) => source.store.subscribeBlock(id, listener),
    [source, id],
  );
  const read = () => findBlock(source.store.getState(), id);
  return useSyncExternalStore(subscribe, read, read);
}

/** Returns a subagent of the conversation that a provider offers, by any of its names. */
export function useSubagent(id: string): Subagent | undefined {
  const source = useCurrent("useSubagent");
  const read = () => findSubagent(source.store.getState(), id);
  return useSyncExternalStore(source.watch, read, read);
}
