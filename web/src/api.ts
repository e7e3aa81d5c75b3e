// What the server says, as types, and the one place that asks for it. A page with embedded data asks nobody.
import { decodeFloats } from "./decode";

export type Kind = "encoder" | "decoder" | "cross";
export const KINDS: readonly Kind[] = ["encoder", "decoder", "cross"];

export interface Model {
  name: string;
  version: string;
  sourceLanguage: string | null;
  targetLanguage: string | null;
  parameters: number;
  config: Record<string, unknown> & {
    d_model: number;
    n_heads: number;
    num_encoder_layers: number;
    num_decoder_layers: number;
    d_ff: number;
    norm?: string;
    positions?: string;
  };
  search: { beam_size: number; length_penalty: number; n_best: number };
  examples: string[];
  training: boolean;
  pairs: number;
  rightToLeft: { source: boolean; target: boolean };
}

export interface Token {
  text: string;
  id: number;
  kind: string;
}

/** Half-open range of tokens that make one word. */
export type Range = [number, number];

/** One uint8 a weight, L·H·T·S of them: for thumbnails. */
export interface Maps {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  weights: string;
}

export interface Candidate {
  parent: number;
  token: Token;
  log_prob: number;
  total: number;
  score: number;
  state: "kept" | "pruned" | "finished";
}

export interface Beam {
  size: number;
  alpha: number;
  steps: Candidate[][];
  best: number[];
}

export interface Alternative {
  text: string;
  score: number;
  log_prob: number;
  ids: number[];
  finished: boolean;
}

export interface Trace {
  id: string;
  text: string;
  translation: string;
  forced: boolean;
  off: string[];
  score: number;
  log_prob: number;
  flags: string[];
  seconds: number | null;
  source: { tokens: Token[]; words: Range[] };
  target: { tokens: Token[]; words: Range[]; log_probs: number[] };
  start: Token;
  alternatives: Alternative[];
  attention: Record<Kind, Maps>;
  beam: Beam | null;
}

export interface TranslateRequest {
  text: string;
  beam_size?: number;
  length_penalty?: number;
  n_best?: number;
  target?: string;
  prefix_ids?: number[];
  off?: string[];
}

/** One head's weights and, where known, the lengths of the weighted value vectors (Kobayashi et al. 2020). */
export interface Head {
  rows: number;
  columns: number;
  weights: Float32Array;
  norms: Float32Array | null;
}

export interface Flow {
  side: "source" | "target";
  position: number;
  token: Token;
  layer: number;
  head: number;
  embedding: number[];
  position_vector: number[];
  sum: number[];
  input: number[];
  normed: number[] | null;
  q: number[];
  k: number[][];
  v: number[][];
  scores: number[];
  masked: boolean[];
  weights: number[];
  weighted_sum: number[];
  attention_output: number[];
  add_norm: number[];
  hidden: number[];
  feed_forward: number[];
  output: number[];
  next: { token: Token; probability: number }[] | null;
}

export interface Positions {
  kind: string;
  d_model: number;
  max_len: number;
  length: number;
  table: string;
}

export interface HeadRow {
  kind: Kind;
  layer: number;
  head: number;
  values: Record<string, number | null>;
  leans: { to: string; share: number; baseline: number | null; low?: number; high?: number } | null;
  examples: { text: string; row: string; column: string; weight: number }[];
  similar?: { kind: Kind; layer: number; head: number; distance: number }[];
}

export interface HeadTable {
  pairs: number;
  measures: { name: string; direction: number }[];
  heads: HeadRow[];
  /** What each measure would be by chance. */
  baselines: Record<Kind, Record<string, number | null>>;
}

export interface HeadsReport {
  state: "none" | "running" | "done" | "error";
  done: number;
  of: number;
  error: string | null;
  table: HeadTable | null;
}

export interface LabParameter {
  name: string;
  kind: "int" | "choice" | "float" | "text";
  default: string | number;
  min?: number;
  max?: number;
  step?: number;
  choices?: (string | number)[];
  label: string;
}

export interface LabEntry {
  name: string;
  number: number;
  title: string;
  question: string;
  parameters: LabParameter[];
  seconds: number;
  needs: null | "model";
  /** It can look at the served model too. */
  takesModel?: boolean;
}

export interface LabResult {
  name: string;
  number: number;
  title: string;
  question: string;
  idea: string;
  pictures: { title: string; svg: string }[];
  numbers: { label: string; value: string }[];
  checks: { claim: string; found: string; holds: boolean; control: boolean }[];
  source: string;
}

export interface Training {
  records: Record<string, unknown>[];
  next: number;
  running: boolean;
}

/** All that a one-file page carries in `#pellucid-data`. */
interface Embedded {
  model: Model;
  trace: Trace;
  heads: Record<Kind, string>;
  flow: Record<string, Flow>;
  positions: Positions | null;
  labs: (LabEntry & LabResult)[] | null;
  table: HeadTable | null;
  lang: "en" | "zh" | null;
}

export type Trouble = "gone" | "refused" | "unsaved" | "needs-server";

/** Why an answer did not come: nobody there, an error in words, a run that has saved no model, or a page without a server. */
export class ApiError extends Error {
  constructor(
    readonly trouble: Trouble,
    message = "",
  ) {
    super(message);
  }
}

function readEmbedded(): Embedded | null {
  const element = globalThis.document?.getElementById("pellucid-data");
  return element?.textContent ? (JSON.parse(element.textContent) as Embedded) : null;
}

export const embedded = readEmbedded();

/** Which of several models is asked: the one that the address names (`?model=name`), else the server's first. */
export const askedModel: string = new URLSearchParams(globalThis.location?.search ?? "").get("model") ?? "";

/** The same page about another model; the view stays. */
export function askModel(name: string): void {
  const values = new URLSearchParams(location.search);
  values.set("model", name);
  location.search = values.toString();
}

/** `path` with the model that is asked. A lab says by a `model` of its own whether it looks at one at all: 0 no, 1 yes. */
export function withModel(path: string, name = askedModel): string {
  if (path.startsWith("/api/labs")) return name ? path.replace(/([?&]model=)1(?=&|$)/, `$1${encodeURIComponent(name)}`) : path;
  if (!name || path === "/api/models") return path;
  return `${path}${path.includes("?") ? "&" : "?"}${query({ model: name })}`;
}

async function ask<T>(path: string, body?: unknown): Promise<T> {
  if (embedded) throw new ApiError("needs-server");
  let response: Response;
  try {
    response = await fetch(
      withModel(path),
      body === undefined
        ? undefined
        : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) },
    );
  } catch {
    throw new ApiError("gone");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer as T;
  const words: string = answer?.error ?? `${response.status} ${response.statusText}`;
  throw new ApiError(answer?.code === "no-model-yet" ? "unsaved" : "refused", words);
}

function query(values: Record<string, string | number>): string {
  return new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)])).toString();
}

/** What is embedded, else what the server answers. */
async function either<T>(inside: T | null | undefined, path: string): Promise<T> {
  return embedded && inside ? inside : ask<T>(path);
}

export const api = {
  /** The names of all that the server has. */
  models: () => ask<{ name: string }[]>("/api/models"),

  model: () => either(embedded?.model, "/api/model"),

  translate: (request: TranslateRequest) => ask<Trace>("/api/translate", request),

  async head(trace: Trace, kind: Kind, layer: number, head: number): Promise<Head> {
    const { rows, columns, heads } = trace.attention[kind];
    if (embedded) {
      const first = (layer * heads + head) * rows * columns;
      const weights = decodeFloats(embedded.heads[kind]).slice(first, first + rows * columns);
      return { rows, columns, weights, norms: null };
    }
    const answer = await ask<{ rows: number; columns: number; weights: string; norms: string | null }>(
      `/api/trace/${encodeURIComponent(trace.id)}/head?${query({ kind, layer, head })}`,
    );
    return {
      rows: answer.rows,
      columns: answer.columns,
      weights: decodeFloats(answer.weights),
      norms: answer.norms ? decodeFloats(answer.norms) : null,
    };
  },

  async flow(trace: Trace, kind: Kind, layer: number, head: number, position: number): Promise<Flow> {
    if (embedded) {
      const found = Object.entries(embedded.flow).find(
        ([key, flow]) =>
          key.startsWith(`${kind}.`) && flow.layer === layer && flow.head === head && flow.position === position,
      );
      if (found) return found[1];
    }
    return ask(`/api/trace/${encodeURIComponent(trace.id)}/flow?${query({ kind, layer, head, position })}`);
  },

  positions: (length: number) => either(embedded?.positions, `/api/positions?${query({ length })}`),

  heads: (limit: number) =>
    either<HeadsReport>(
      embedded?.table && {
        state: "done",
        done: embedded.table.pairs,
        of: embedded.table.pairs,
        error: null,
        table: embedded.table,
      },
      `/api/heads?${query({ limit })}`,
    ),

  startHeads: (limit: number) => ask<HeadsReport>("/api/heads", { limit }),

  labs: (lang: string) => either<LabEntry[]>(embedded?.labs, `/api/labs?${query({ lang })}`),

  lab: (name: string, lang: string, values: Record<string, string | number>) =>
    either<LabResult>(
      embedded?.labs?.find((lab) => lab.name === name && lab.pictures),
      `/api/labs/${encodeURIComponent(name)}?${query({ lang, ...values })}`,
    ),

  training: (since: number) => ask<Training>(`/api/training?${query({ since })}`),
};
