// What every entry exports: all but the converters.

export type * from "./generated/types.js";
export type { SessionSummary, SessionsPage } from "./client-types.js";
export { PROTOCOL, REDUCER } from "./generated/types.js";
export { type EngineUsage, engineUsage } from "./handle.js";
export { createInitialConversationState, isConversationState } from "./state.js";
export {
  type AnyEvent,
  type EventAnomaly,
  type ReduceOptions,
  isConversationEvent,
  reduceSessionEvent,
  reduceSessionEvents,
} from "./reduce.js";
export { findBlock, findSubagent } from "./find.js";
export { restoreState, serializeState, stateHash, statesEqual } from "./snapshot.js";
export {
  ConnectError,
  Connection,
  type ConnectionStatus,
  type ConnectionUpdate,
  type ConnectOptions,
  connect,
} from "./connect.js";
export { type ConversationStore, createConversationStore } from "./store.js";
