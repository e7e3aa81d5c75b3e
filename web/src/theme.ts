// Light or dark: what the system says, until the reader chooses.
import { computed, effect, signal } from "@preact/signals";
import { DARK, LIGHT } from "./colour";
import { recall, remember } from "./storage";

export type Theme = "auto" | "light" | "dark";

const stored = recall("theme");
const systemDark = globalThis.window?.matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(systemDark?.matches ?? false);
systemDark?.addEventListener("change", (event) => (systemIsDark.value = event.matches));

export const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "auto");
export const isDark = computed(() => (theme.value === "auto" ? systemIsDark.value : theme.value === "dark"));
export const palette = computed(() => (isDark.value ? DARK : LIGHT));

export function setTheme(choice: Theme): void {
  theme.value = choice;
  remember("theme", choice);
}

if (globalThis.document) effect(() => void (document.documentElement.dataset.theme = isDark.value ? "dark" : "light"));
