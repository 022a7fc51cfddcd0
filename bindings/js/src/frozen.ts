// Freezes what is handed out, in development: a program that writes to a state finds out.

declare const process: { env: { NODE_ENV?: string } };

let isDevelopment = false;
try {
  // Bundlers replace this; a browser without one has no `process`.
  isDevelopment = process.env.NODE_ENV !== "production";
} catch {
  isDevelopment = false;
}

/** Returns a value that nobody can change, with all that it contains. */
export function frozen<T>(value: T): T {
  if (!isDevelopment || typeof value !== "object" || value === null || Object.isFrozen(value)) {
    return value;
  }
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}

/** Returns a list that nobody can change. What it contains is frozen already, and may be much. */
export function frozenList<T>(list: readonly T[]): readonly T[] {
  return isDevelopment ? Object.freeze(list) : list;
}

/**
 * Returns a list with the same elements, to be changed. V8 copies a frozen list element by element
 * in `slice`, which takes a hundred times as long.
 */
export function copyOf<T>(list: readonly T[]): T[] {
  return [...list];
}

/** Returns an object that nobody can change. What it contains is not looked at. */
export function frozenState<T extends object>(state: T): T {
  return isDevelopment ? Object.freeze(state) : state;
}
