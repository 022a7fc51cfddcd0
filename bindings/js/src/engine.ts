// The WebAssembly module: started on first use, called with text.

/** What the module exports: numbers in, numbers out. */
export interface EngineExports {
  readonly memory: WebAssembly.Memory;
  abi_version(): number;
  input(length: number): number;
  output(): number;
  output_length(): number;
  anomalies(): number;
  conversation_events(): number;
  state_count(): number;
  state_new(): number;
  state_clone(state: number): number;
  state_free(state: number): void;
  state_apply(state: number, length: number): number;
  state_apply_frames(state: number, length: number): number;
  state_append(state: number, length: number, conversation: number, block: number): number;
  state_named(state: number): number;
  state_order(state: number): number;
  state_find_subagent(state: number, length: number): number;
  state_find_block(state: number, length: number, conversation: number): number;
  state_hash(state: number): number;
  state_equals(one: number, other: number): number;
  state_snapshot(state: number): number;
  state_restore(length: number): number;
  fold_new(length: number): number;
  fold_free(fold: number): void;
  fold_source(fold: number, length: number): number;
  fold_push(fold: number, source: number, length: number): number;
  fold_finish(fold: number, source: number): number;
  fold_state(fold: number): number;
  fold_settled(fold: number): number;
  fold_metadata(fold: number): number;
  fold_snapshot(fold: number): number;
  fold_restore(length: number): number;
  parse_text(length: number, agent: number): number;
  parse_files(length: number, agent: number): number;
  detect_format(length: number): number;
  verify(length: number, agent: number): number;
}

/** What `init` takes: where the module is, or the module. */
export type WasmSource = string | URL | Request | Response | BufferSource | WebAssembly.Module;

const VERSION = 1;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

let started: EngineExports | undefined;
let supply: (() => BufferSource) | undefined;
let hasConverters = false;
let memory = new Uint8Array(0);

/** Which module: the reducer alone, or with converters. */
export type ModuleKind = "core" | "full";

/** Names the function that has the module's bytes when they are needed. The larger module wins. */
export function provideBytes(kind: ModuleKind, bytes: () => BufferSource): void {
  if (supply === undefined || (kind === "full" && !hasConverters)) supply = bytes;
  hasConverters ||= kind === "full";
}

/** Returns the module, started, if it has converters. */
export function converters(): EngineExports {
  const exports = engine();
  if (exports.parse_text === undefined) {
    throw new Error(
      "the WebAssembly module without converters was started: import `threadfold`, or `init` with `threadfold.wasm`, first",
    );
  }
  return exports;
}

/** Returns the module, started. */
export function engine(): EngineExports {
  return started ?? start(supply && new WebAssembly.Module(supply()));
}

function start(module: WebAssembly.Module | undefined): EngineExports {
  if (module === undefined) {
    throw new Error(
      "threadfold/slim has no WebAssembly module yet: `await init(...)` first, or import `threadfold`",
    );
  }
  return (started = startModule(module));
}

/** Starts a module, and checks that it is of this package. */
export function startModule(module: WebAssembly.Module): EngineExports {
  const exports = new WebAssembly.Instance(module).exports as unknown as EngineExports;
  if (exports.abi_version?.() !== VERSION) {
    throw new Error("the WebAssembly module is of another version of threadfold");
  }
  return exports;
}

/** Starts the module from a URL, a response, bytes or a compiled module. */
export async function init(source: WasmSource | Promise<WasmSource>): Promise<void> {
  if (started === undefined) {
    const module = await compile(await source);
    if (started === undefined) start(module);
  }
}

async function compile(source: WasmSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (typeof source === "string" || source instanceof URL || isRequest(source)) {
    return compile(await fetch(source));
  }
  if (typeof Response !== "undefined" && source instanceof Response) {
    if (!source.ok) throw new Error(`${source.url} answered ${source.status}`);
    return WebAssembly.compile(await source.arrayBuffer());
  }
  return WebAssembly.compile(source as BufferSource);
}

function isRequest(source: WasmSource): source is Request {
  return typeof Request !== "undefined" && source instanceof Request;
}

/** Returns the module's memory. It moves when it grows. */
function bytes(): Uint8Array {
  const { buffer } = engine().memory;
  if (memory.buffer !== buffer) memory = new Uint8Array(buffer);
  return memory;
}

/** Below this, room for the longest encoding is cheaper than encoding twice. */
const SHORT = 4096;

/** Writes texts one after another, and returns the length of each in bytes. */
export function writeTexts(...texts: string[]): number[] {
  let most = 0;
  for (const text of texts) most += text.length * 3;
  if (most > SHORT) {
    const encoded = texts.map((text) => encoder.encode(text));
    writeBytes(...encoded);
    return encoded.map((part) => part.length);
  }
  const start = engine().input(most);
  const target = bytes();
  let end = start;
  return texts.map((text) => {
    const { written } = encoder.encodeInto(text, target.subarray(end, start + most));
    end += written;
    return written;
  });
}

/** Up to here, a loop is faster than the encoder with the views that it needs. */
const TINY = 256;

/** Writes ASCII text at a place, and returns its end, or -1 if it is other text. */
function writeAscii(target: Uint8Array, start: number, text: string): number {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0x7f) return -1;
    target[start + at] = code;
  }
  return start + text.length;
}

/** Appends text to the content of a block: most events are this, and most of them are short. */
export function appendText(state: number, conversation: string, block: string, text: string): number {
  const length = conversation.length + block.length + text.length;
  if (length <= TINY) {
    const start = engine().input(length);
    const target = bytes();
    let end = writeAscii(target, start, conversation);
    if (end >= 0) end = writeAscii(target, end, block);
    if (end >= 0) end = writeAscii(target, end, text);
    if (end >= 0) return engine().state_append(state, length, conversation.length, block.length);
  }
  const [first, second, third] = writeTexts(conversation, block, text) as [number, number, number];
  return engine().state_append(state, first + second + third, first, second);
}

/** Writes one text, and returns its length in bytes. */
export function writeText(text: string): number {
  const most = text.length * 3;
  if (most > SHORT) return writeBytes(encoder.encode(text));
  const start = engine().input(most);
  return encoder.encodeInto(text, bytes().subarray(start, start + most)).written;
}

/** Writes bytes one after another, and returns the length of all. */
export function writeBytes(...parts: Uint8Array[]): number {
  return writeBytesTo(engine(), ...parts);
}

/** Writes bytes one after another to a module, and returns the length of all. */
export function writeBytesTo(module: EngineExports, ...parts: Uint8Array[]): number {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  let end = module.input(length);
  // The memory moves when it grows, and making room may do that.
  const target = new Uint8Array(module.memory.buffer);
  for (const part of parts) {
    target.set(part, end);
    end += part.length;
  }
  return length;
}

/** Returns the output as text. */
export function readText(): string {
  const { output, output_length } = engine();
  const start = output();
  return decoder.decode(bytes().subarray(start, start + output_length()));
}

/** Returns the output of a module as text. */
export function readTextOf({ memory, output, output_length }: EngineExports): string {
  return decoder.decode(new Uint8Array(memory.buffer, output(), output_length()));
}

/** Returns the output as JSON. */
export function readJson<T>(): T {
  return JSON.parse(readText()) as T;
}

/** Returns a result, or throws the error that it stands for. */
export function checked(result: number): number {
  return checkedBy(engine(), result);
}

/** Returns a result of a module, or throws the error that it stands for. */
export function checkedBy(module: EngineExports, result: number): number {
  if (result < 0) throw new Error(readTextOf(module));
  return result;
}
