// What the user chose, kept in this browser.

import { useSyncExternalStore } from "react";

export interface Settings {
  readonly theme: "system" | "light" | "dark";
  readonly grouping: "day" | "project";
  /** Show only what is in the model's context. */
  readonly modelOnly: boolean;
  /** Show hooks, commands and other notices of the harness. */
  readonly noise: boolean;
}

const KEY = "threadfold.settings";
const DEFAULTS: Settings = { theme: "system", grouping: "day", modelOnly: false, noise: false };
const listeners = new Set<() => void>();
let settings = load();

function load(): Settings {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>) };
  } catch {
    return DEFAULTS;
  }
}

export function changeSettings(change: Partial<Settings>): void {
  settings = { ...settings, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSettings(): Settings {
  return useSyncExternalStore(subscribe, () => settings);
}

/** Puts the theme on the document; without a choice, the system's is used. */
export function applyTheme(): void {
  const root = document.documentElement;
  if (settings.theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", settings.theme);
}

/** Chooses the next theme. */
export function cycleTheme(): void {
  const next = { system: "light", light: "dark", dark: "system" } as const;
  changeSettings({ theme: next[settings.theme] });
}
