// What a state shows: plain objects, made when they are first read.
//
// A state knows what changed since the one before it. Reading it applies the changes since the
// nearest state that was read, and makes each object once: on the step that made it. So a block, a
// list or a subagent that did not change is the same object in every state that has it, in whatever
// order the states are read.

import type { Block, Subagent } from "./generated/types.js";
import { engine, checked, readJson, writeTexts } from "./engine.js";
import { copyOf, frozen, frozenList } from "./frozen.js";
import type { Append, Moment } from "./moment.js";
import { appended, applyChange, findNearEnd, type ShownChange } from "./shown-change.js";

/** The blocks of a subagent, and all that is shown of it. */
export interface ShownSubagent {
  readonly header: Omit<Subagent, "blocks">;
  readonly subagent: Subagent;
}

/** All that a state shows. */
export interface View {
  readonly blocks: readonly Block[];
  /** By the name of its conversation. */
  readonly byName: ReadonlyMap<string, ShownSubagent>;
  readonly subagents: readonly Subagent[];
}

/** After so many states that nobody read, one is read: the changes between would pile up. */
const MOST_UNREAD = 1024;

const EMPTY: View = frozen({ blocks: frozen([]), byName: new Map(), subagents: frozen([]) });

export class Shown {
  #view: View | undefined;
  #parent: Shown | undefined;
  /** Where a state without a known past is read from. */
  #origin: Moment | undefined;
  /** As the engine wrote them, or as text for one block: most steps are that. */
  #changes: string | Append | readonly ShownChange[];
  #unread: number;
  /** The objects that the changes of this step made. */
  #made: Block[] | undefined;
  /** The lists and subagents that this step was the last one to change. */
  #last: Map<string, readonly Block[] | ShownSubagent> | undefined;

  private constructor(view: View | undefined, parent: Shown | undefined, changes: string | Append) {
    this.#view = view;
    this.#parent = parent;
    this.#changes = changes;
    this.#unread = parent === undefined || parent.#view !== undefined ? 1 : parent.#unread + 1;
  }

  /** Returns what an empty state shows. */
  static empty(): Shown {
    return new Shown(EMPTY, undefined, "");
  }

  /** Returns what a state shows that has no known past. */
  static whole(moment: Moment): Shown {
    const shown = new Shown(undefined, undefined, "");
    shown.#origin = moment;
    return shown;
  }

  /** Returns what the state after a step shows. */
  after(changes: string | Append | undefined, moment: Moment): Shown {
    const next = new Shown(undefined, this, changes ?? "");
    if (next.#unread > MOST_UNREAD) next.view(moment);
    return next;
  }

  view(moment: Moment): View {
    return (this.#view ??= this.#make(moment));
  }

  #make(moment: Moment): View {
    const view = this.#appendToView() ?? this.#makeFromBase(moment);
    // Whoever comes after this begins with its view.
    this.#parent = undefined;
    this.#changes = "";
    this.#made = undefined;
    this.#last = undefined;
    return view;
  }

  /**
   * Returns the view if the step before was read and this one appends text to one of the last blocks
   * of the main conversation: what reading after every event of a stream is. The same as
   * `#makeFromBase`, without what that needs for any other change. A step that was applied before has
   * a list of changes, so nothing is made twice.
   */
  #appendToView(): View | undefined {
    const [parent, append] = [this.#parent, this.#changes];
    const base = parent === undefined ? undefined : parent.#view;
    if (base === undefined || typeof append === "string" || !("kind" in append)) return undefined;
    const at = append.conversationId === "main" ? findNearEnd(base.blocks, append.blockId) : -1;
    if (at < 0) return undefined;
    const blocks = copyOf(base.blocks);
    blocks[at] = frozen(appended(base.blocks[at]!, append.text));
    return { blocks: frozenList(blocks), byName: base.byName, subagents: base.subagents };
  }

  #makeFromBase(moment: Moment): View {
    const steps: Shown[] = [];
    let base: Shown = this;
    while (base.#view === undefined && base.#parent !== undefined) {
      steps.push(base);
      base = base.#parent;
    }
    if (base.#view === undefined) {
      base.#view = readWhole(base.#origin!);
      base.#origin = undefined;
      if (base === this) return base.#view;
    }
    const draft = new Draft(base.#view, moment);
    for (const step of steps.reverse()) step.#applyTo(draft);
    return draft.finish((key, step, make) => (step.#last ??= new Map()).get(key) ?? step.#keep(key, make()));
  }

  #keep<T extends readonly Block[] | ShownSubagent>(key: string, made: T): T {
    this.#last!.set(key, made);
    return made;
  }

  #applyTo(draft: Draft): void {
    const changes = (this.#changes = toChanges(this.#changes));
    const made = this.#made;
    draft.begin(this, made);
    for (const change of changes) applyChange(draft, change);
    this.#made ??= draft.made;
  }
}

function toChanges(changes: string | Append | readonly ShownChange[]): readonly ShownChange[] {
  if (typeof changes === "string") return changes === "" ? [] : (JSON.parse(changes) as ShownChange[]);
  if (!("kind" in changes)) return changes;
  const { conversationId, blockId, text } = changes;
  return [{ type: "text:appended", conversationId, blockId, field: "content", text }];
}

interface NamedState {
  readonly blocks: Block[];
  readonly names: string[];
  readonly subagents: Subagent[];
}

function readWhole(moment: Moment): View {
  checked(engine().state_named(moment.state()));
  const { blocks, names, subagents } = readJson<NamedState>();
  const byName = new Map<string, ShownSubagent>();
  subagents.forEach((subagent, index) => {
    const { blocks: _, ...header } = subagent;
    byName.set(names[index]!, { header, subagent: frozen(subagent) });
  });
  return { blocks: frozen(blocks), byName, subagents: frozen(subagents) };
}

type Keep = (
  key: string,
  step: Shown,
  make: () => readonly Block[] | ShownSubagent,
) => readonly Block[] | ShownSubagent;

/** A subagent while changes are applied. */
interface DraftSubagent {
  header: Omit<Subagent, "blocks">;
  blocks: Block[];
}

/** A view while changes are applied to it. */
export class Draft {
  made: Block[] = [];
  #known: Block[] | undefined;
  #step: Shown | undefined;
  #blocks: Block[] | undefined;
  #subagents = new Map<string, DraftSubagent>();
  #gone = new Set<string>();
  #changedBy = new Map<string, Shown>();
  #isReordered = false;
  readonly #base: View;
  readonly #moment: Moment;

  constructor(base: View, moment: Moment) {
    this.#base = base;
    this.#moment = moment;
  }

  begin(step: Shown, known: Block[] | undefined): void {
    this.#step = step;
    this.#known = known;
    this.made = [];
  }

  /** Returns the block that the current change makes: the one that it made before, if it did. */
  make(block: () => Block): Block {
    const made = this.#known?.[this.made.length] ?? frozen(block());
    this.made.push(made);
    return made;
  }

  /** Returns the blocks of a conversation, to be changed. */
  blocks(name: string): Block[] {
    this.#changedBy.set(name, this.#step!);
    if (name === "main") return (this.#blocks ??= copyOf(this.#base.blocks));
    return this.#subagent(name).blocks;
  }

  setHeader(name: string, header: Omit<Subagent, "blocks">): void {
    this.#changedBy.set(name, this.#step!);
    this.#subagent(name).header = header;
    this.#isReordered = true;
  }

  rename(from: string, to: string): void {
    const subagent = this.#subagent(from);
    this.remove(from);
    this.#subagents.set(to, subagent);
    this.#changedBy.set(to, this.#step!);
  }

  remove(name: string): void {
    this.#subagents.delete(name);
    this.#changedBy.delete(name);
    this.#gone.add(name);
    this.#isReordered = true;
  }

  /** Subagents are shown in the order of their calls, which a change may have moved. */
  reorder(): void {
    this.#isReordered = true;
  }

  #subagent(name: string): DraftSubagent {
    const known = this.#subagents.get(name);
    if (known !== undefined) return known;
    const base = this.#gone.has(name) ? undefined : this.#base.byName.get(name);
    const draft: DraftSubagent = base
      ? { header: base.header, blocks: copyOf(base.subagent.blocks) }
      : { header: { status: "running" }, blocks: [] };
    if (base === undefined) this.#isReordered = true;
    this.#gone.delete(name);
    this.#subagents.set(name, draft);
    return draft;
  }

  /** Returns the position of a block in the final state, which mostly is its position here. */
  hint(name: string, blockId: string): number {
    const [conversation, block] = writeTexts(name, blockId) as [number, number];
    return engine().state_find_block(this.#moment.state(), conversation + block, conversation);
  }

  finish(keep: Keep): View {
    const blocks =
      this.#blocks === undefined
        ? this.#base.blocks
        : (keep("main", this.#changedBy.get("main")!, () => frozenList(this.#blocks!)) as Block[]);
    if (this.#subagents.size === 0 && this.#gone.size === 0 && !this.#isReordered) {
      return { blocks, byName: this.#base.byName, subagents: this.#base.subagents };
    }
    const byName = new Map(this.#base.byName);
    for (const name of this.#gone) byName.delete(name);
    for (const [name, { header, blocks }] of this.#subagents) {
      const make = () => ({ header, subagent: frozen({ ...header, blocks: frozenList(blocks) }) });
      byName.set(name, keep(`sub:${name}`, this.#changedBy.get(name)!, make) as ShownSubagent);
    }
    return { blocks, byName, subagents: this.#ordered(byName) };
  }

  #ordered(byName: ReadonlyMap<string, ShownSubagent>): readonly Subagent[] {
    if (byName.size === 0 && this.#base.subagents.length === 0) return this.#base.subagents;
    checked(engine().state_order(this.#moment.state()));
    const list = readJson<string[]>().map((name) => byName.get(name)!.subagent);
    const before = this.#base.subagents;
    const isSame = list.length === before.length && list.every((it, index) => it === before[index]);
    return isSame ? before : frozenList(list);
  }
}
