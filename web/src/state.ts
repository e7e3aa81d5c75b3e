// What the page knows and what the reader has chosen, as signals; and the few actions that change them.
import { computed, effect, signal } from "@preact/signals";
import { api, embedded, KINDS, type Kind, type Model, type Trace, type TranslateRequest } from "./api";
import type { Convention } from "./axes";
import { asApiError, type Loadable } from "./load";
import { note, onAddress, route, type Route } from "./router";

/** What the large map shows: one head, or a summary of a layer's heads or of all heads. */
export interface Selection {
  kind: Kind;
  layer: number | "all";
  head: number | "mean" | "max";
}

export const model = signal<Loadable<Model>>({ state: "idle" });
/** The names of all models that the server has; one is nothing to choose from. */
export const modelNames = signal<string[]>([]);
export const modelValue = computed(() => ("value" in model.value ? model.value.value : undefined));

export const text = signal("");
export const ownTranslation = signal("");
export const settings = signal<{ beam_size?: number; length_penalty?: number; n_best: number }>({ n_best: 3 });

export const trace = signal<Loadable<Trace>>({ state: "idle" });
export const traceValue = computed(() => ("value" in trace.value ? trace.value.value : undefined));
/** The same sentence with every head on, when heads are off: for the comparison. */
export const whole = signal<Trace | null>(null);
/** Heads switched off for the next translation, as "cross.3.6": counted from 1. */
export const off = signal<ReadonlySet<string>>(new Set());

export const selection = signal<Selection>(selectionFrom(route.peek().query));
export const convention = signal<Convention>("predicts");
export const asWords = signal(true);
export const hideSeparators = signal(false);
export const threshold = signal(0);
export const logScale = signal(false);
export const showNorms = signal(false);
export const allKinds = signal(false);

/** The cell under the pointer or the keyboard's cursor, and the one pinned by a click; rows and columns of the large map. */
export interface Focus {
  row: number | null;
  column: number | null;
}
export const NOWHERE: Focus = { row: null, column: null };
export const hovered = signal<Focus>(NOWHERE);
export const pinned = signal<Focus>(NOWHERE);
export const focus = computed(() =>
  hovered.value.row !== null || hovered.value.column !== null ? hovered.value : pinned.value,
);

export function headName(kind: Kind, layer: number, head: number): string {
  return `${kind}.${layer + 1}.${head + 1}`;
}

export function selectionFrom(query: URLSearchParams): Selection {
  const kind = KINDS.find((name) => name === query.get("kind")) ?? "cross";
  const layer = query.get("layer");
  const head = query.get("head");
  return {
    kind,
    layer: layer === "all" ? "all" : Math.max(0, (Number(layer) || 1) - 1),
    head: head === "mean" || head === "max" ? head : Math.max(0, (Number(head) || 1) - 1),
  };
}

/** A choice that this model has: another model's link may name a layer that is not there. */
export function fitted(choice: Selection, layers: number, heads: number): Selection {
  const layer = choice.layer === "all" ? "all" : Math.min(choice.layer, layers - 1);
  const head = typeof choice.head === "string" ? choice.head : Math.min(choice.head, heads - 1);
  return { ...choice, layer, head: layer === "all" && typeof head === "number" ? "mean" : head };
}

export function select(choice: Partial<Selection>): void {
  const maps = traceValue.peek()?.attention[choice.kind ?? selection.peek().kind];
  const next = { ...selection.peek(), ...choice };
  selection.value = maps ? fitted(next, maps.layers, maps.heads) : next;
  hovered.value = pinned.value = NOWHERE;
}

export function toggleHead(name: string): void {
  const next = new Set(off.peek());
  if (!next.delete(name)) next.add(name);
  off.value = next;
}

/** Switches a whole layer off, or on again when all of it is off. */
export function toggleLayer(kind: Kind, layer: number, heads: number): void {
  const names = Array.from({ length: heads }, (_, head) => headName(kind, layer, head));
  const next = new Set(off.peek());
  if (names.every((name) => next.has(name))) names.forEach((name) => next.delete(name));
  else names.forEach((name) => next.add(name));
  off.value = next;
}

export async function loadModel(): Promise<void> {
  model.value = { state: "loading" };
  try {
    model.value = { state: "ready", value: await api.model() };
  } catch (error) {
    model.value = { state: "error", error: asApiError(error) };
  }
}

let turn = 0;

/** Translates the sentence as the settings say; `extra` forces a beginning or a whole translation. */
export async function translate(extra: Pick<TranslateRequest, "prefix_ids" | "target"> = {}): Promise<void> {
  if (!text.peek().trim()) return;
  const mine = ++turn;
  const request: TranslateRequest = { text: text.peek(), ...settings.peek(), ...extra };
  const heads = [...off.peek()];
  trace.value = { state: "loading", value: traceValue.peek() };
  try {
    const answer = await api.translate({ ...request, off: heads });
    const before = heads.length ? await api.translate({ ...request, off: [] }) : null;
    if (mine !== turn) return;
    whole.value = before;
    hovered.value = pinned.value = NOWHERE;
    trace.value = { state: "ready", value: answer };
    select({});
  } catch (error) {
    if (mine === turn) trace.value = { state: "error", error: asApiError(error) };
  }
}

/** The first look: what is embedded, or the sentence that the address carries. */
export async function start(): Promise<void> {
  const asked = route.peek().query.get("text"); // the reader may go on to another view meanwhile
  if (!embedded) void api.models().then((all) => (modelNames.value = all.map(({ name }) => name)), () => {});
  await loadModel();
  if (embedded) {
    text.value = embedded.trace.text;
    trace.value = { state: "ready", value: embedded.trace };
    return select({});
  }
  text.value = asked ?? modelValue.peek()?.examples[0] ?? "";
  if (asked) await translate();
}


/** What a changed address says: another head, another sentence. */
function adopt({ view, query }: Route): void {
  if (view !== "translate") return;
  if (query.has("kind")) select(selectionFrom(query));
  const sentence = query.get("text");
  if (embedded || !sentence || sentence === traceValue.peek()?.text) return;
  text.value = sentence;
  void translate();
}

if (globalThis.window) {
  onAddress(adopt);
  effect(() => {
    const { kind, layer, head } = selection.value;
    if (route.value.view !== "translate") return;
    const oneBased = (value: number | string) => (typeof value === "number" ? String(value + 1) : value);
    const sentence = traceValue.value?.text ?? route.value.query.get("text") ?? "";
    note({ kind, layer: oneBased(layer), head: oneBased(head), text: sentence && sentence.length <= 400 ? sentence : null });
  });
}
