// The page's words. English is the reference; the type makes every other language have the same keys.
import { effect, signal } from "@preact/signals";
import { embedded } from "../api";
import { recall, remember } from "../storage";
import { en } from "./en";
import { zh } from "./zh";

export type Lang = "en" | "zh";
export type Key = keyof typeof en;
export type Words = Record<Key, string>;

const WORDS: Record<Lang, Words> = { en, zh };
export const HTML_LANG: Record<Lang, string> = { en: "en", zh: "zh-Hans" };

function firstLanguage(): Lang {
  const wishes = [
    new URLSearchParams(globalThis.location?.search ?? "").get("lang"),
    recall("lang"),
    embedded?.lang,
    globalThis.navigator?.language,
  ];
  for (const wish of wishes) {
    if (wish?.startsWith("zh")) return "zh";
    if (wish?.startsWith("en")) return "en";
  }
  return "en";
}

export const lang = signal<Lang>(firstLanguage());

export function setLanguage(choice: Lang): void {
  lang.value = choice;
  remember("lang", choice);
}

/** The words for `key`, with `{name}` filled in. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return WORDS[lang.value][key].replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** The words for a name that comes from the server, or the name itself. */
export function named(prefix: string, name: string): string {
  const key = `${prefix}.${name}`;
  return key in en ? t(key as Key) : name;
}

export function number(value: number, digits = 3): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 10 ** -digits || size >= 1e6)) return value.toExponential(2);
  return value.toFixed(digits).replace("-", "−");
}

export const percent = (share: number): string => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;

if (globalThis.document) effect(() => void (document.documentElement.lang = HTML_LANG[lang.value]));
