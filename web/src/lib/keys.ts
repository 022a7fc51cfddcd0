// The keyboard: every key is registered with what it does, so that the help lists all of them.

import { useEffect, useRef } from "react";

export interface KeyBinding {
  /** `j`, `ArrowDown`, `Shift+L`, `mod+k`, or two keys in sequence: `g s`. */
  readonly keys: readonly string[];
  readonly label: string;
  readonly run: (event: KeyboardEvent) => void;
  /** Also while the user writes in a field. */
  readonly inFields?: boolean;
}

const layers: { current: readonly KeyBinding[] }[] = [];
let first: string | undefined;
let firstTimer: ReturnType<typeof setTimeout> | undefined;

function nameOf(event: KeyboardEvent): string {
  const mod = event.ctrlKey || event.metaKey ? "mod+" : "";
  const shift = event.shiftKey && event.key.length > 1 ? "Shift+" : "";
  return `${mod}${shift}${event.key.length === 1 && mod !== "" ? event.key.toLowerCase() : event.key}`;
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type !== "range" && target.type !== "checkbox";
  return target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName);
}

/** What Enter, Space and arrows do on these belongs to the element. */
function isOwnKey(event: KeyboardEvent): boolean {
  const { target } = event;
  if (!(target instanceof HTMLElement)) return false;
  const isPressed = event.key === "Enter" || event.key === " ";
  if (isPressed && target.closest("button, a, summary, [role=button], [role=slider]") !== null) return true;
  return event.key.startsWith("Arrow") && target.closest("input, select, [role=listbox]") !== null;
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]") !== null) return;
  const name = nameOf(event);
  const sequence = first === undefined ? undefined : `${first} ${name}`;
  first = undefined;
  clearTimeout(firstTimer);
  const inField = isField(event.target);
  for (let layer = layers.length - 1; layer >= 0; layer -= 1) {
    for (const binding of layers[layer]!.current) {
      const isMeant = binding.keys.includes(name) || (sequence !== undefined && binding.keys.includes(sequence));
      if (!isMeant || (inField && binding.inFields !== true) || isOwnKey(event)) continue;
      event.preventDefault();
      binding.run(event);
      return;
    }
  }
  if (!inField && layers.some((layer) => layer.current.some((it) => it.keys.some((key) => key.startsWith(`${name} `))))) {
    first = name;
    firstTimer = setTimeout(() => (first = undefined), 1_000);
  }
}

/** Registers keys while a component is mounted. The last registered comes first. */
export function useKeys(bindings: readonly KeyBinding[]): void {
  const layer = useRef(bindings);
  layer.current = bindings;
  useEffect(() => {
    if (layers.length === 0) addEventListener("keydown", onKey);
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
      if (layers.length === 0) removeEventListener("keydown", onKey);
    };
  }, []);
}

/** Returns all keys that do something now. */
export function activeKeys(): KeyBinding[] {
  return layers.flatMap((layer) => [...layer.current]);
}
