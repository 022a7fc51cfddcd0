// The past of a session: its events, and states along the way from which any record is near.

import {
  type ConversationState,
  createInitialConversationState,
  reduceSessionEvents,
  type SessionEvent,
} from "threadfold/slim";
import { fetchFrom, type Server } from "../lib/server.js";
import { rowKey } from "./rows.js";

/** So much text is folded within a few milliseconds. */
const STRIDE = 64 * 1024;
/** Beyond these, every other one is dropped: a state of a long session has a long list of blocks. */
const MOST_STATES = 128;

interface PastState {
  readonly seq: number;
  readonly state: ConversationState;
  /** How many lines are folded into it. */
  readonly lines: number;
}

const TYPE = /^\{"type":"([a-z_:]+)"/;
const SEQ = /"seq":(\d+),"v":\d+\}\}$/;
const BLOCK = /"block":\{"id":("(?:[^"\\]|\\.)*")/;
const CHANGES = /^(block|context|subagent|session:idle|permission|turn:(started|answered)|tool:(finished|failed|unknown))/;

/** A record that people look for: a prompt, or a change of the context. */
export interface Mark {
  readonly seq: number;
  readonly kind: "prompt" | "context";
  readonly label: string;
}

const CONTEXT_KIND = /"kind":"([a-z]+)"/;

export class History {
  readonly marks: Mark[] = [];
  /** The records that changed the conversation. */
  readonly steps: number[] = [];
  /** Those that began a block. */
  readonly blockSteps: number[] = [];
  readonly #lines: string[] = [];
  /** The record of each line. */
  readonly #seqs: number[] = [];
  readonly #known = new Set<string>();
  #states: PastState[] = [{ seq: 0, state: createInitialConversationState(), lines: 0 }];
  #stride = STRIDE;
  #pendingBytes = 0;
  #head = 0;
  readonly #server: Server;
  readonly #session: string;

  constructor(server: Server, session: string) {
    this.#server = server;
    this.#session = session;
  }

  /** The last record that was read. */
  get head(): number {
    return this.#head;
  }

  /** Reads what is new, up to a record at least that is known to exist. */
  async read(until: number, signal: AbortSignal, progress: (records: number) => void): Promise<void> {
    const path = `/v1/sessions/${encodeURIComponent(this.#session)}/events?after=${this.#head}`;
    const response = await fetchFrom(this.#server, path, signal);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#add(line);
      progress(this.#head);
    }
    // A record without events is part of the log as well.
    this.#head = Math.max(this.#head, until);
  }

  #add(line: string): void {
    if (line === "") return;
    const found = SEQ.exec(line);
    const seq = found === null ? ((JSON.parse(line) as SessionEvent).context?.seq ?? this.#head) : Number(found[1]);
    if (this.#pendingBytes >= this.#stride && seq > this.#head) this.#keep();
    this.#lines.push(line);
    this.#seqs.push(seq);
    this.#pendingBytes += line.length;
    this.#head = Math.max(this.#head, seq);
    const type = TYPE.exec(line)?.[1] ?? "";
    if (CHANGES.test(type) && this.steps.at(-1) !== seq) this.steps.push(seq);
    if (type === "context:changed") {
      this.marks.push({ seq, kind: "context", label: CONTEXT_KIND.exec(line)?.[1] ?? "change" });
    }
    const block = type === "block:upsert" ? BLOCK.exec(line)?.[1] : undefined;
    if (block !== undefined && !this.#known.has(block)) {
      this.#known.add(block);
      if (this.blockSteps.at(-1) !== seq) this.blockSteps.push(seq);
      const isPrompt = line.includes('"type":"user_message"') && line.includes('"conversationId":"main"');
      if (isPrompt) this.marks.push({ seq, kind: "prompt", label: "prompt" });
    }
  }

  /** Keeps the state after the lines so far. */
  #keep(): void {
    const last = this.#states.at(-1)!;
    const state = reduceSessionEvents(last.state, this.#lines.slice(last.lines).join("\n"));
    // Read now: a state that was read lets go of the changes that lead to it.
    void state.blocks;
    this.#states.push({ seq: this.#head, state, lines: this.#lines.length });
    this.#pendingBytes = 0;
    if (this.#states.length > MOST_STATES) {
      this.#states = this.#states.filter((_, at) => at % 2 === 0);
      this.#stride *= 2;
    }
  }

  /** Returns the state after a record. */
  at(seq: number): ConversationState {
    const base = this.#states.findLast((it) => it.seq <= seq)!;
    const end = this.#endOf(seq);
    if (end === base.lines) return base.state;
    return reduceSessionEvents(base.state, this.#lines.slice(base.lines, end).join("\n"));
  }

  /** Returns the rows that a record changed, by key. */
  changedAt(seq: number): ReadonlySet<string> {
    const changed = new Set<string>();
    for (let at = this.#endOf(seq - 1); at < this.#lines.length && this.#seqs[at] === seq; at += 1) {
      const event = JSON.parse(this.#lines[at]!) as SessionEvent;
      const payload = (event.payload ?? {}) as { block?: { id?: string }; blockId?: string; toolUseId?: string };
      const conversation = event.context?.conversationId ?? "main";
      const id = payload.block?.id ?? payload.blockId ?? payload.toolUseId;
      if (id === undefined) continue;
      changed.add(rowKey(conversation, id));
      // A result is drawn with its call.
      if (id.startsWith("result:")) changed.add(rowKey(conversation, id.slice("result:".length)));
    }
    return changed;
  }

  /** Returns how many lines belong to records up to one. */
  #endOf(seq: number): number {
    let [low, high] = [0, this.#seqs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#seqs[middle]! <= seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Returns the next of some sorted numbers in a direction, or the number itself at the end. */
export function neighbour(sorted: readonly number[], from: number, direction: 1 | -1): number {
  if (direction === 1) return sorted.find((it) => it > from) ?? from;
  return sorted.findLast((it) => it < from) ?? 0;
}
