// Made-up answers of the server, of realistic sizes: every pattern is planted, every number drawn from a seeded generator.

function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0; // mulberry32
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const token = (text, id, kind = "piece") => ({ text, id, kind });
const END = token("</s>", 0, "control");
const START = token("<s>", 9999, "control");

/** Pieces of a spaced language: long words are cut in two. */
function spaced(sentence, from) {
  const tokens = [];
  const words = [];
  for (const word of sentence.match(/[^\s.,!?]+|[.,!?]|<\/script>/g) ?? []) {
    const first = tokens.length;
    const cut = word.length > 6 ? Math.ceil(word.length / 2) : word.length;
    const pieces = [(/^[.,!?]$/.test(word) ? "" : "▁") + word.slice(0, cut), word.slice(cut)].filter(Boolean);
    for (const piece of pieces) tokens.push(token(piece, from + tokens.length));
    words.push([first, tokens.length]);
  }
  return { tokens: [...tokens, END], words: [...words, [tokens.length, tokens.length + 1]] };
}

/** Pieces of Chinese: characters; words as given by the bars. */
function chinese(sentence, from) {
  const tokens = [];
  const words = [];
  for (const word of sentence.split("|")) {
    const first = tokens.length;
    for (const character of word) tokens.push(token(character, from + tokens.length));
    words.push([first, tokens.length]);
  }
  return { tokens: [...tokens, END], words: [...words, [tokens.length, tokens.length + 1]] };
}

const SENTENCES = {
  "Two brown dogs are running across the snowy meadow.": {
    source: (s) => spaced(s, 100),
    target: ["Zwei braune Hunde rennen über die verschneite Wiese.", (s) => spaced(s, 300)],
  },
  "两只棕色的狗在下雪的草地上跑。": {
    source: () => chinese("两只|棕色|的|狗|在|下雪|的|草地|上|跑|。", 100),
    target: ["Two brown dogs are running on the snowy meadow.", (s) => spaced(s, 300)],
  },
  "كلبان بنيان يتراكضان في المرج الثلجي.": {
    source: (s) => spaced(s, 100),
    target: ["Two brown dogs are running in the snowy meadow.", (s) => spaced(s, 300)],
  },
  "A tag such as </script> is only text.": {
    source: (s) => spaced(s, 100),
    target: ["Ein Zeichen wie </script> ist nur Text.", (s) => spaced(s, 300)],
  },
};
const LONG = Array.from({ length: 78 }, (_, i) => ["the", "red", "house", "by", "a", "river"][i % 6]).join(" ") + ".";
SENTENCES[LONG] = { source: (s) => spaced(s, 100), target: [LONG, (s) => spaced(s, 300)] };
export { LONG };

/** Maps of L × H heads: each head has a role, with noise; rows sum to 1. */
function floats(layers, heads, rows, columns, mask, random) {
  const data = new Float32Array(layers * heads * rows * columns);
  const roles = [
    (i, j) => -Math.abs(j - (i * columns) / rows) * 1.6,
    (i, j) => (j === i - 1 ? 4 : 0),
    (i, j) => (j === i + 1 ? 4 : 0),
    (_, j) => (j === columns - 1 ? 3 : 0),
    () => 0,
    (i, j) => (j === i ? 3.5 : 0),
    (i, j) => ((i + j) % 4 === 0 ? 2 : 0),
    (_, j) => (j === 2 ? 3 : 0),
  ];
  for (let l = 0; l < layers; l++)
    for (let h = 0; h < heads; h++)
      for (let i = 0; i < rows; i++) {
        const scores = Array.from({ length: columns }, (_, j) =>
          mask && j > i ? -Infinity : roles[(h + l * 3) % roles.length](i, j) + random() * 1.2,
        );
        const sum = scores.reduce((total, score) => total + Math.exp(score), 0);
        scores.forEach((score, j) => (data[((l * heads + h) * rows + i) * columns + j] = Math.exp(score) / sum));
      }
  return data;
}

const base64 = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
const maps = (layers, heads, rows, columns, data) => ({
  layers, heads, rows, columns, weights: base64(Uint8Array.from(data, (weight) => Math.round(255 * weight))),
});

function beam(target, size, random) {
  const steps = [];
  const best = [];
  const others = ["▁ein", "▁der", "▁und", "▁Hund", "▁im", "s", "en", "▁Schnee", "▁Gras", "▁laufen"];
  let place = -1;
  target.tokens.forEach((chosen, t) => {
    const parents = t === 0 ? [-1] : steps[t - 1].flatMap((candidate, i) => (candidate.state === "kept" ? [i] : []));
    const all = Array.from({ length: Math.min(2 * size, 8) }, (_, i) => {
      const parent = i === 0 ? place : parents[Math.floor(random() * parents.length)];
      const log_prob = -(i === 0 ? 0.2 : 1 + 3 * random());
      const total = (parent < 0 ? 0 : steps[t - 1][parent].total) + log_prob;
      return { parent, token: i === 0 ? chosen : token(others[(i + t) % others.length], 500 + i), log_prob, total, score: total / ((6 + t) / 6) ** 0.6, state: "", mine: i === 0 };
    }).sort((a, b) => b.score - a.score);
    all.forEach((candidate, i) => (candidate.state = candidate.token === END ? "finished" : candidate.mine || i < size - 1 ? "kept" : "pruned"));
    place = all.findIndex((candidate) => candidate.mine);
    best.push(place);
    steps.push(all.map(({ mine, ...candidate }) => candidate));
  });
  return { size, alpha: 0.6, steps, best };
}

const traces = new Map();

export function makeTrace(request, model) {
  const text = request.text.trim();
  const known = SENTENCES[text] ?? {
    source: (s) => (/\p{Script=Han}/u.test(s) ? chinese([...s].join("|"), 100) : spaced(s, 100)),
    target: ["Das ist ein Satz.", (s) => spaced(s, 300)],
  };
  const off = request.off ?? [];
  const random = generator(17 + text.length);
  let words = request.target ?? known.target[0];
  if (off.length) words = words.replace("braune ", "").replace("rennen", "laufen").replace("brown ", "");
  if (request.prefix_ids) words += " (forced)";
  const source = known.source(text);
  const target = known.target[1](words);
  const [L, E, H] = [model.config.num_decoder_layers, model.config.num_encoder_layers, model.config.n_heads];
  const [S, T] = [source.tokens.length, target.tokens.length];
  const full = {
    encoder: floats(E, H, S, S, false, random),
    decoder: floats(L, H, T, T, true, random),
    cross: floats(L, H, T, S, false, random),
  };
  const log_probs = target.tokens.map(() => -random());
  const trace = {
    id: `t${traces.size + 1}`, text, translation: words, forced: Boolean(request.target), off,
    score: -0.23 - 0.2 * off.length, log_prob: -1.9 - off.length, flags: text === LONG ? ["split"] : [], seconds: 0.12,
    source, target: { ...target, log_probs }, start: START,
    alternatives: Array.from({ length: request.n_best ?? 1 }, (_, i) => ({
      text: i ? words.replace(/\S+/, ["Die", "Ein paar", "Diese zwei"][i % 3]) : words,
      score: -0.23 - 0.08 * i, log_prob: -1.9 - 0.7 * i, ids: target.tokens.map(({ id }) => id), finished: i !== 2,
    })),
    attention: { encoder: maps(E, H, S, S, full.encoder), decoder: maps(L, H, T, T, full.decoder), cross: maps(L, H, T, S, full.cross) },
    beam: request.target ? null : beam(target, request.beam_size ?? model.search.beam_size, random),
  };
  traces.set(trace.id, { trace, full });
  return trace;
}

export function makeHead(id, { kind, layer, head }) {
  const { trace, full } = traces.get(id);
  const { heads, rows, columns } = trace.attention[kind];
  const first = (Number(layer) * heads + Number(head)) * rows * columns;
  const weights = full[kind].slice(first, first + rows * columns);
  const norms = weights.map((weight, i) => weight * (i % columns === columns - 1 ? 0.1 : 1.3));
  return { weights: base64(weights), norms: base64(norms), rows, columns };
}

export const fullMaps = (id) => Object.fromEntries(Object.entries(traces.get(id).full).map(([kind, data]) => [kind, base64(data)]));

export function makeFlow(id, { kind, layer, head, position }, model) {
  const { trace, full } = traces.get(id);
  const { d_model: D, d_ff: F, n_heads: H } = model.config;
  const K = D / H;
  const random = generator(Number(position) * 31 + Number(layer) * 7 + Number(head));
  const vector = (length, scale = 1) => Array.from({ length }, () => Number((scale * (random() + random() + random() - 1.5)).toPrecision(6)));
  const { rows, columns } = trace.attention[kind];
  const at = ((Number(layer) * H + Number(head)) * rows + Number(position)) * columns;
  const weights = [...full[kind].slice(at, at + columns)];
  const input = kind === "encoder" ? trace.source.tokens : [START, ...trace.target.tokens];
  return {
    side: kind === "encoder" ? "source" : "target", position: Number(position), token: input[position], layer: Number(layer), head: Number(head),
    embedding: vector(D), position_vector: vector(D), sum: vector(D), input: vector(D), normed: vector(D),
    q: vector(K), k: weights.map(() => vector(K)), v: weights.map(() => vector(K)),
    scores: weights.map((weight) => (weight ? Math.log(weight) : -2)), masked: weights.map((_, i) => kind !== "decoder" || i <= position), weights,
    weighted_sum: vector(K), attention_output: vector(D), add_norm: vector(D), hidden: vector(F).map((value) => Math.max(0, value)),
    feed_forward: vector(D), output: vector(D),
    next: kind === "encoder" ? null : [0.61, 0.14, 0.06, 0.04, 0.03, 0.02, 0.01, 0.01, 0.005, 0.002].map((probability, i) => ({
      token: i ? token(`▁Wort${i}`, 700 + i) : trace.target.tokens[position], probability,
    })),
  };
}

export function makePositions(wanted, { d_model: d, positions: kind, max_len }) {
  const length = Math.min(wanted, max_len);
  const table = new Float32Array(length * d);
  if (kind === "learned") {
    const random = generator(11); // each dimension wanders from position to position
    for (let p = 0; p < length; p++)
      for (let i = 0; i < d; i++) table[p * d + i] = 0.9 * (p ? table[(p - 1) * d + i] : 0) + 0.3 * (random() - 0.5);
    return { kind, d_model: d, max_len, length, table: base64(table) };
  }
  for (let p = 0; p < length; p++)
    for (let i = 0; i < d; i++) table[p * d + i] = (i % 2 ? Math.cos : Math.sin)(p / 10000 ** ((i - (i % 2)) / d));
  return { kind, d_model: d, max_len, length, table: base64(table) };
}

export function makeTable(model) {
  const random = generator(5);
  const names = ["confidence", "entropy", "previous", "next", "same", "rare", "separator", "importance", "delta_loss"];
  const heads = [];
  for (const kind of ["encoder", "decoder", "cross"])
    for (let layer = 0; layer < (kind === "encoder" ? model.config.num_encoder_layers : model.config.num_decoder_layers); layer++)
      for (let head = 0; head < model.config.n_heads; head++)
        heads.push({
          kind, layer, head,
          values: Object.fromEntries(names.map((name) => [name, kind === "cross" && ["previous", "next", "same"].includes(name) ? null : random() * (name === "entropy" ? 3 : 1)])),
          leans: head % 3 ? { to: "previous", share: 0.62, baseline: 0.1, low: 0.58, high: 0.66 } : null,
          similar: [{ kind, layer: 0, head: (head + 1) % model.config.n_heads, distance: 0.12 }],
          examples: head % 2 ? [{ text: "Two brown dogs are running.", row: "▁dogs", column: "▁brown", weight: 0.97 }] : [],
        });
  return { pairs: 200, measures: names.map((name) => ({ name, direction: 1 })), heads, baselines: { encoder: { previous: 0.08, next: 0.08 }, decoder: { previous: 0.15 }, cross: {} } };
}

const PICTURE =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 120" width="320" height="120"><rect x="10" y="30" width="60" height="80" fill="#4585b0"/>' +
  '<rect x="90" y="70" width="60" height="40" fill="#1d5585"/><text x="10" y="20" font-size="12" font-family="sans-serif">var(q·k) 方差</text></svg>';

export function makeLabs(lang) {
  const zh = lang === "zh";
  return [
    ["head-by-hand", zh ? "手算一个头" : "One head by hand", zh ? "一个头到底算了什么？" : "What does one head compute?"],
    ["why-sqrt-dk", zh ? "为什么除以 √d_k" : "Why divide by √d_k?", zh ? "不除会怎样？" : "What happens without it?"],
    ["order-blind", zh ? "狗咬人，人咬狗" : "Dog bites man, man bites dog", zh ? "注意力知道词序吗？" : "Does attention know the order of words?"],
  ].map(([name, title, question], i) => ({
    name, number: i + 1, title, question, seconds: 0.1, needs: null, takesModel: i === 2,
    parameters: [
      { name: "d_k", kind: "int", default: 64, min: 4, max: 512, step: 4, label: zh ? "d_k（每个头的维数）" : "d_k, dimensions of a head" },
      { name: "scaled", kind: "choice", default: "yes", choices: ["yes", "no"], label: zh ? "缩放" : "scaled" },
      { name: "sentence", kind: "text", default: zh ? "狗咬人" : "dog bites man", label: zh ? "句子" : "sentence" },
    ],
  }));
}

export function makeLab(name, query) {
  const zh = query.lang === "zh";
  const entry = makeLabs(query.lang).find((lab) => lab.name === name);
  return {
    ...entry,
    idea: zh ? "点积的方差随 d_k 增长，softmax 因此变得很尖。" : "The variance of a dot product grows with d_k, and softmax becomes sharp.",
    pictures: [{ title: zh ? "打分的分布" : "Scores", svg: PICTURE }],
    numbers: [{ label: "var / d_k", value: "1.00" }, { label: "d_k", value: String(query.d_k ?? 64) }],
    checks: [
      { claim: zh ? "方差等于 d_k" : "the variance equals d_k", found: "64.1 at 64", holds: true, control: false },
      { claim: zh ? "不缩放时方差也是 1" : "the variance is 1 without scaling", found: "64.1", holds: false, control: true },
    ],
    source: "3.2.1, footnote 4",
  };
}

export function makeTraining(since, growing) {
  const records = [];
  for (let update = 50; update <= 3000; update += 50) {
    records.push({ record: "progress", update, epoch: update / 300, loss: 2 + 6 * Math.exp(-update / 600), rate: 0.0442 * Math.min(update ** -0.5, update * 800 ** -1.5) });
    if (update % 500 === 0)
      records.push({ record: "validation", update, loss: 2.2 + 5 * Math.exp(-update / 700), perplexity: 12, bleu: 35 * (1 - Math.exp(-update / 900)), chrf: null });
  }
  const end = growing ? Math.min(records.length, since + 20) : records.length;
  return { records: records.slice(since, end), next: end, running: end < records.length };
}
