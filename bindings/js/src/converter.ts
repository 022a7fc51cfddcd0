// Raw lines of a live stream to events, and to a state.

import type { ConversationState, SessionEvent, SessionMetadata } from "./generated/types.js";
import { checked, converters, readJson, readText, writeBytes, writeText } from "./engine.js";
import { stateOfHandle } from "./state.js";
import { type AgentName, toBytes } from "./transcript.js";

/** What the lines are, and whose. */
export interface ConverterOptions {
  /** `stream` for what the agent emits while it works, `main` for the lines of its transcript. */
  readonly source?: "stream" | "main" | "subagent" | "events";
  /** The id of the subagent, if the lines are a subagent's transcript. */
  readonly agentId?: string;
  /** The id of the session, if the lines may be of several. */
  readonly session?: string;
}

const folds = new FinalizationRegistry((id: number) => converters().fold_free(id));

/** Reads the raw lines of an agent. */
export class Converter {
  readonly #fold: number;
  readonly #source: number;

  /** @internal */
  constructor(fold: number, source: number) {
    this.#fold = fold;
    this.#source = source;
    folds.register(this, fold);
  }

  /** Reads more of the source, cut anywhere, and returns the events of its complete lines. */
  push(chunk: string | Uint8Array): SessionEvent[] {
    return JSON.parse(this.pushText(chunk)) as SessionEvent[];
  }

  /** Reads more like `push`, and returns the text of the events for `reduceSessionEvents`. */
  pushText(chunk: string | Uint8Array): string {
    checked(converters().fold_push(this.#fold, this.#source, writeBytes(toBytes(chunk))));
    return readText();
  }

  /** Ends the source, and returns the events of its end. */
  finish(): SessionEvent[] {
    return JSON.parse(this.finishText()) as SessionEvent[];
  }

  /** Ends the source like `finish`, and returns the text of the events. */
  finishText(): string {
    checked(converters().fold_finish(this.#fold, this.#source));
    return readText();
  }

  /** The state of everything that was read. */
  get state(): ConversationState {
    return stateOfHandle(checked(converters().fold_state(this.#fold)));
  }

  /** The state as if the source ended here. */
  get settledState(): ConversationState {
    return stateOfHandle(checked(converters().fold_settled(this.#fold)));
  }

  /** Title, model, tokens and cost of the session. */
  get metadata(): SessionMetadata {
    checked(converters().fold_metadata(this.#fold));
    return readJson<SessionMetadata>();
  }

  /** Returns the converter as text, from which `restoreConverter` continues. */
  serialize(): string {
    checked(converters().fold_snapshot(this.#fold));
    return `${this.#source}\n${readText()}`;
  }
}

/** Returns a converter for raw lines of an agent, in the browser or elsewhere. */
export function createConverter(agent: AgentName, options: ConverterOptions = {}): Converter {
  const { source = "stream", agentId, session = "" } = options;
  const fold = checked(converters().fold_new(writeText(JSON.stringify({ agent, session }))));
  const spec = JSON.stringify({ kind: source, name: source, agentId });
  return new Converter(fold, checked(converters().fold_source(fold, writeText(spec))));
}

/** Returns a converter that continues where `serialize` ended. */
export function restoreConverter(text: string): Converter {
  const end = text.indexOf("\n");
  return new Converter(checked(converters().fold_restore(writeText(text.slice(end + 1)))), Number(text.slice(0, end)));
}

/** Returns the state of all records of a source, as if it ended there. */
export function foldRecords(
  agent: AgentName,
  records: Iterable<string | Uint8Array>,
  options: ConverterOptions = {},
): ConversationState {
  const converter = createConverter(agent, options);
  for (const record of records) {
    converter.pushText(record);
    // Most callers have lines without their ends; an empty line is no record.
    converter.pushText("\n");
  }
  converter.finish();
  return converter.state;
}
