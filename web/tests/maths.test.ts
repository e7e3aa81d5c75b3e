import { describe, expect, it } from "vitest";
import { type Beam, type Range, type Token, type Trace, withModel } from "../src/api";
import { bitmap, colourTable } from "../src/bitmap";
import { columnAxis, isSeparator, items, rowAxis, wordLabel } from "../src/axes";
import { layout, pathTo, prefixIds } from "../src/beam";
import { DARK, inkOn, LIGHT, shade, type Rgb } from "../src/colour";
import { ticks } from "../src/components/Curves";
import { decodeBytes, decodeFloats } from "../src/decode";
import { diff } from "../src/diff";
import { anchored, isolate, isRightToLeft } from "../src/bidi";
import { barsSvg, escapeXml, gridsSvg, stripsSvg, toCsv, toJson } from "../src/export";
import { at, columnOf, fromBytes, keepColumns, matrix, maxOf, meanOf, mergeWords, rowOf } from "../src/matrix";
import { distances, frequency, gram } from "../src/positions";
import { hashOf, parseRoute } from "../src/router";

const token = (text: string, id = 5, kind = "piece"): Token => ({ text, id, kind });
const m = (rows: number, columns: number, ...values: number[]) => matrix(rows, columns, Float32Array.from(values));
const shown = (values: ArrayLike<number>) => Array.from(values, (value) => Number(value.toFixed(5)));

describe("numbers on the way", () => {
  it("reads bytes and little-endian floats", () => {
    expect([...decodeBytes("AAH/")]).toEqual([0, 1, 255]);
    expect([...decodeFloats("AACAPwAAAMA=")]).toEqual([1, -2]); // 00 00 80 3f, 00 00 00 c0
  });
  it("finds a head's map among all", () => {
    const bytes = Uint8Array.from({ length: 2 * 3 * 2 }, (_, i) => i); // 2 layers, 3 heads, 1 row, 2 columns
    const maps = { layers: 2, heads: 3, rows: 1, columns: 2, weights: "" };
    expect(shown(fromBytes(maps, bytes, 1, 2).data)).toEqual(shown([10 / 255, 11 / 255]));
  });
});

describe("maps", () => {
  const map = m(2, 3, 0.5, 0.3, 0.2, 0.1, 0.1, 0.8);
  it("has rows and columns", () => {
    expect(at(map, 1, 2)).toBeCloseTo(0.8);
    expect(shown(rowOf(map, 0))).toEqual([0.5, 0.3, 0.2]);
    expect(shown(columnOf(map, 0))).toEqual([0.5, 0.1]);
  });
  it("merges pieces: sum over the word looked at, mean over the word that looks", () => {
    const one: Range[] = [[0, 2]];
    const columns: Range[] = [
      [0, 1],
      [1, 3],
    ];
    expect(shown(mergeWords(map, one, columns).data)).toEqual([0.3, 0.7]); // (.5+.1)/2, (.5+.9)/2
  });
  it("keeps rows that sum to 1 when pieces are merged", () => {
    const merged = mergeWords(map, [[0, 1], [1, 2]], [[0, 2], [2, 3]]);
    expect(shown([0, 1].map((row) => rowOf(merged, row).reduce((a, b) => a + b)))).toEqual([1, 1]);
  });
  it("leaves columns out and makes rows sum to 1 again, if asked", () => {
    expect(shown(keepColumns(map, [0, 1], true).data)).toEqual([0.625, 0.375, 0.5, 0.5]);
    expect(shown(keepColumns(map, [0, 1], false).data)).toEqual([0.5, 0.3, 0.1, 0.1]);
    expect(shown(keepColumns(m(1, 2, 0, 1), [0], true).data)).toEqual([0]); // nothing is left to scale
  });
  it("summarises heads", () => {
    const other = m(2, 3, 0.1, 0.1, 0.8, 0.3, 0.3, 0.4);
    expect(shown(meanOf([map, other]).data)).toEqual([0.3, 0.2, 0.5, 0.2, 0.2, 0.6]);
    expect(shown(maxOf([map, other]).data)).toEqual([0.5, 0.3, 0.8, 0.3, 0.3, 0.8]);
  });
});

describe("axes", () => {
  const trace = {
    source: { tokens: [token("▁dog"), token("</s>", 0, "control")], words: [[0, 1], [1, 2]] },
    target: {
      tokens: [token("▁Hu"), token("nd"), token("."), token("</s>", 0, "control")],
      words: [[0, 2], [2, 3], [3, 4]],
    },
    start: token("<s>", 9, "control"),
  } as unknown as Trace;
  const labels = (axis: Parameters<typeof items>[0], words: boolean) => items(axis, words).map(({ label }) => label);
  it("names decoder rows by what they predict or by their input", () => {
    expect(labels(rowAxis(trace, "cross", "predicts"), false)).toEqual(["▁Hu", "nd", ".", "</s>"]);
    expect(labels(rowAxis(trace, "cross", "input"), false)).toEqual(["<s>", "▁Hu", "nd", "."]);
    expect(labels(rowAxis(trace, "cross", "predicts"), true)).toEqual(["Hund", ".", "</s>"]);
    expect(labels(rowAxis(trace, "cross", "input"), true)).toEqual(["<s>", "Hund", "."]);
  });
  it("names decoder columns by the input, whatever the rows are named by", () => {
    expect(labels(columnAxis(trace, "decoder"), false)).toEqual(["<s>", "▁Hu", "nd", "."]);
    expect(labels(columnAxis(trace, "cross"), true)).toEqual(["dog", "</s>"]);
  });
  it("covers every row even when the translation was cut inside a word", () => {
    const cut = { ...trace, target: { tokens: [token("▁Hu"), token("nd")], words: [[0, 2]] } } as unknown as Trace;
    expect(rowAxis(cut, "decoder", "input").words).toEqual([[0, 1], [1, 2]]);
  });
  it("knows marks and punctuation", () => {
    expect(["▁", ".", "</s>", "▁“", "，"].map((text) => isSeparator(token(text, 0, text === "</s>" ? "control" : "piece")))).toEqual(
      [true, true, true, true, true],
    );
    expect(["▁a", "狗", "3", "</s>"].map((text) => isSeparator(token(text)))).toEqual([false, false, false, false]);
  });
  it("puts bytes together to characters", () => {
    expect(wordLabel(["▁", "<0xE7>", "<0x8B>", "<0x97>"].map((text) => token(text)))).toBe("狗");
    expect(wordLabel([token("▁")])).toBe("▁");
  });
});

describe("colour", () => {
  const lightness = ([r, g, b]: Rgb) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
  it("gets steadily darker on light paper and lighter on dark paper", () => {
    const falls = (colours: Rgb[]) => colours.every((colour, i) => i === 0 || lightness(colour) <= lightness(colours[i - 1]) + 0.5);
    expect(falls(LIGHT.sequential)).toBe(true);
    expect(falls([...DARK.sequential].reverse())).toBe(true);
    expect(falls(DARK.sequential)).toBe(false);
  });
  it("shades linearly or by order of magnitude", () => {
    expect([0, 0.25, 1, 2].map((w) => shade(w, false))).toEqual([0, 0.25, 1, 1]);
    expect([0, 0.0001, 0.01, 1].map((w) => shade(w, true))).toEqual([0, 0, 0.5, 1]);
  });
  it("writes black on light and white on dark", () => {
    expect([inkOn([255, 255, 255]), inkOn([10, 40, 70])]).toEqual(["#000000", "#ffffff"]);
  });
});

describe("beam", () => {
  const node = (parent: number, text: string, id: number, state = "kept") => ({ parent, token: token(text, id), log_prob: -1, total: -1, score: -1, state });
  const beam = {
    size: 2,
    alpha: 0.6,
    steps: [
      [node(-1, "a", 1), node(-1, "b", 2)],
      [node(1, "c", 3), node(0, "d", 4, "pruned")],
      [node(0, "</s>", 0, "finished")],
    ],
    best: [1, 0, 0],
  } as Beam;
  it("walks from a candidate back to the start", () => {
    expect(pathTo(beam, 1, 0).map(({ text }) => text)).toEqual(["b", "c"]);
    expect(pathTo(beam, 1, 1).map(({ text }) => text)).toEqual(["a", "d"]);
  });
  it("forces the words, not the end mark", () => {
    expect(prefixIds(beam, 1, 0)).toEqual([2, 3]);
    expect(prefixIds(beam, 2, 0)).toEqual([2, 3]);
  });
  it("lays steps out side by side, ranks one below the other", () => {
    const placed = layout(beam, (label) => label.length * 10, 20, 5);
    expect(placed.map(({ x, y, width }) => [x, y, width])).toEqual([[0, 0, 10], [0, 20, 10], [15, 0, 10], [15, 20, 10], [30, 0, 40]]);
  });
});

describe("bitmap", () => {
  it("is a BMP: colours as blue, green, red, 0, then padded rows", () => {
    const url = bitmap(Uint8Array.of(0, 1, 1, 0, 1, 1), 3, colourTable([[255, 128, 0], [1, 2, 3]]));
    const bytes = decodeBytes(url.split(",")[1]);
    expect(url.startsWith("data:image/bmp;base64,Qk")).toBe(true); // "BM"
    expect([...bytes.subarray(54)]).toEqual([0, 128, 255, 0, 3, 2, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0]);
    const view = new DataView(bytes.buffer);
    expect([view.getUint32(2, true), view.getUint32(10, true), view.getInt32(18, true), view.getInt32(22, true)]).toEqual([70, 62, 3, -2]);
  });
});

describe("positions", () => {
  const d = 8;
  const table = matrix(40, d, Float32Array.from({ length: 40 * d }, (_, i) => {
    const [p, j] = [Math.floor(i / d), i % d];
    return (j % 2 ? Math.cos : Math.sin)(p * frequency((j - (j % 2)) / 2, d));
  }));
  it("has the paper's frequencies", () => {
    expect(shown([frequency(0, 8), frequency(1, 8), frequency(2, 8)])).toEqual([1, 0.1, 0.01]);
  });
  it("has products that depend on the distance only, unlike a learnt table", () => {
    const constant = (g: ReturnType<typeof gram>) => Math.abs(at(g, 3, 8) - at(g, 20, 25)) < 1e-5;
    expect(constant(gram(table))).toBe(true);
    expect(at(gram(table), 7, 7)).toBeCloseTo(d / 2, 5);
    const other = matrix(40, d, table.data.map((value, i) => value + (i % 7) / 7));
    expect(constant(gram(other))).toBe(false);
  });
  it("measures distances", () => {
    expect(shown(distances(m(3, 2, 0, 0, 3, 4, 6, 8), 0))).toEqual([0, 5, 10]);
  });
});

describe("differences of two sentences", () => {
  const only = (left: string, right: string) =>
    diff(left, right).map((side) => side.filter(({ mark }) => mark === "only").map(({ text }) => text));
  it("marks the words that the other side lacks", () => {
    expect(only("two brown dogs run", "two dogs run fast")).toEqual([["brown"], ["fast"]]);
    expect(only("the same", "the same")).toEqual([[], []]);
    expect(only("", "all new")).toEqual([[], ["all", "new"]]);
  });
  it("looks at Chinese character by character", () => {
    expect(only("狗咬人", "人咬狗").flat().length).toBeGreaterThan(0);
    expect(only("棕色的狗", "黑色的狗")).toEqual([["棕"], ["黑"]]);
  });
});

describe("files", () => {
  const table = { columns: ["a", "b"], rows: [["x,y", 1], ['say "no"', null]] };
  it("writes CSV and JSON", () => {
    expect(toCsv(table)).toBe('a,b\r\n"x,y",1\r\n"say ""no""",\r\n');
    expect(JSON.parse(toJson(table))).toEqual([{ a: "x,y", b: 1 }, { a: 'say "no"', b: null }]);
  });
  it("escapes what SVG would take for markup", () => {
    expect(escapeXml('</script> & "x"')).toBe("&lt;/script&gt; &amp; &quot;x&quot;");
  });
});

describe("addresses", () => {
  it("go there and back", () => {
    const hash = hashOf("labs", "why √d", new URLSearchParams({ d_k: "8" }));
    const { view, rest, query } = parseRoute(hash);
    expect([view, rest, query.get("d_k")]).toEqual(["labs", "why √d", "8"]);
  });
  it("fall back to the first view", () => {
    expect([parseRoute("").view, parseRoute("#/nonsense").view]).toEqual(["translate", "translate"]);
  });
});

describe("axis ticks", () => {
  it("are round", () => {
    expect(ticks(0, 10, 5)).toEqual([0, 2, 4, 6, 8, 10]);
    expect(ticks(0.13, 0.42, 3)).toEqual([0.2, 0.3, 0.4]);
  });
});

describe("pictures in files", () => {
  const rects = (svg: string) => [...svg.matchAll(/<rect([^>]*)>/g)].map(([, words]) => words);
  it("draws a vector up and down at its own scale, and nothing for 0", () => {
    const svg = stripsSvg([{ label: "q < k", values: [2, -1, 0] }], LIGHT);
    const [, up, down, axis, ...more] = rects(svg); // the first is the paper
    expect(up).toContain('y="0.00" width="239.50" height="28.00"');
    expect(down).toContain('y="28.00" width="239.50" height="14.00"');
    expect(axis).toContain('height="1"');
    expect(more).toEqual([]);
    expect(svg).toContain("q &lt; k");
  });
  it("draws shares as bars beside their words", () => {
    const svg = barsSvg("Next", [{ label: "▁dog", value: 0.5, note: "50%" }, { label: "كلب", value: 0.25, note: "25%" }], LIGHT, () => 40);
    expect(rects(svg).slice(1).map((words) => /width="([\d.]+)"/.exec(words)![1])).toEqual(["150.00", "75.00"]);
    expect(svg).toContain('text-anchor="end" fill="#1b1f24">▁dog');
    expect(svg).toContain('direction="rtl" text-anchor="start" fill="#1b1f24">كلب');
  });
  it("draws grids side by side, a cell a head", () => {
    const cell = { colour: [10, 20, 30] as Rgb, words: "0.5" };
    const grid = { title: "Encoder", rows: [{ label: "L1", cells: [cell, { colour: null, words: "–" }] }] };
    const svg = gridsSvg("confidence", [grid, grid], LIGHT);
    expect(rects(svg)).toHaveLength(1 + 4);
    expect(svg).toContain('fill="rgb(10,20,30)"');
    expect(svg.match(/–/g)).toHaveLength(2);
  });
});

describe("right to left", () => {
  it("is what the first letter says", () => {
    expect(["▁كلب", "(שלום", "dog كلب", "</s>", "12."].map(isRightToLeft)).toEqual([true, true, false, false, false]);
  });
  it("keeps the edge of drawn words", () => {
    expect(anchored("dog", "left")).toEqual({ "text-anchor": "start" });
    expect(anchored("كلب", "left")).toEqual({ direction: "rtl", "text-anchor": "end" });
    expect(anchored("كلب", "right")).toEqual({ direction: "rtl", "text-anchor": "start" });
  });
  it("keeps what follows in its place, and leaves other words alone", () => {
    expect(isolate("كلب")).toBe("\u2068كلب\u2069");
    expect(isolate("dog")).toBe("dog");
  });
});

it("the model that is asked goes with every question, and into a lab's own wish", () => {
  expect(withModel("/api/model", "a b")).toBe("/api/model?model=a+b");
  expect(withModel("/api/positions?length=8", "x")).toBe("/api/positions?length=8&model=x");
  expect(withModel("/api/labs/heads?lang=en&model=1&n=2", "x")).toBe("/api/labs/heads?lang=en&model=x&n=2");
  expect(withModel("/api/labs/heads?lang=en&model=0", "x")).toBe("/api/labs/heads?lang=en&model=0");
  expect(withModel("/api/labs?lang=en", "x")).toBe("/api/labs?lang=en");
  expect(withModel("/api/model", "")).toBe("/api/model");
});
