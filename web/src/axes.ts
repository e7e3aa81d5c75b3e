// Which tokens name the rows and columns of a map, as pieces or as words.
import type { Kind, Range, Token, Trace } from "./api";

export type Convention = "predicts" | "input";

export interface Axis {
  side: "source" | "target";
  tokens: Token[];
  words: Range[];
}

/** One name on an axis: a piece, or the pieces of a word. */
export interface Item {
  label: string;
  range: Range;
  separator: boolean;
}

/** Decoder input is [start, y1 ... yn]: the target's tokens, moved by one. */
function decoderInput(trace: Trace): Axis {
  const { tokens, words } = trace.target;
  const moved = words
    .map(([first, last]): Range => [first + 1, Math.min(last + 1, tokens.length)])
    .filter(([first, last]) => first < last);
  return { side: "target", tokens: [trace.start, ...tokens.slice(0, -1)], words: [[0, 1], ...moved] };
}

function source(trace: Trace): Axis {
  return { side: "source", ...trace.source };
}

/** Rows are queries: source tokens, or decoder positions named by what they predict or by what is put in. */
export function rowAxis(trace: Trace, kind: Kind, convention: Convention): Axis {
  if (kind === "encoder") return source(trace);
  return convention === "input"
    ? decoderInput(trace)
    : { side: "target", tokens: trace.target.tokens, words: trace.target.words };
}

/** Columns are keys: in the decoder always what was put in. */
export function columnAxis(trace: Trace, kind: Kind): Axis {
  return kind === "decoder" ? decoderInput(trace) : source(trace);
}

/** Start and end marks, punctuation, bare space marks. */
export function isSeparator(token: Token): boolean {
  return token.kind === "control" || /^[▁\s\p{P}\p{S}]*$/u.test(token.text);
}

const BYTE = /^<0x([0-9A-Fa-f]{2})>$/;

/** A word as a reader writes it: space marks gone, bytes put together to characters. */
export function wordLabel(tokens: Token[]): string {
  if (tokens.every((token) => token.kind === "control")) return tokens.map((token) => token.text).join("");
  const pieces: string[] = [];
  let bytes: number[] = [];
  const flush = () => {
    if (bytes.length) pieces.push(new TextDecoder().decode(Uint8Array.from(bytes)));
    bytes = [];
  };
  for (const token of tokens) {
    const byte = BYTE.exec(token.text);
    if (byte) bytes.push(parseInt(byte[1], 16));
    else {
      flush();
      pieces.push(token.text.replaceAll("▁", " "));
    }
  }
  flush();
  return pieces.join("").trim() || "▁";
}

export function items(axis: Axis, asWords: boolean): Item[] {
  const ranges: Range[] = asWords ? axis.words : axis.tokens.map((_, i) => [i, i + 1]);
  return ranges.map((range) => {
    const tokens = axis.tokens.slice(...range);
    return {
      label: asWords ? wordLabel(tokens) : tokens[0].text,
      range,
      separator: tokens.every(isSeparator),
    };
  });
}
