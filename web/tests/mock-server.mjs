// The contract of `pellucid serve` with made-up answers, for work on the page without a model: npm run mock
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { LONG, makeFlow, makeHead, makeLab, makeLabs, makePositions, makeTable, makeTrace, makeTraining } from "./fixtures.mjs";

const STATIC = new URL("../../src/pellucid/server/static/", import.meta.url);
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", txt: "text/plain; charset=utf-8" };
const POLICY = "default-src 'self'; img-src 'self' data: blob:";

export const MODEL = {
  name: "mock", version: "0.1.0", sourceLanguage: "en", targetLanguage: "de", parameters: 12345678,
  config: { d_model: 256, n_heads: 8, num_encoder_layers: 6, num_decoder_layers: 6, d_ff: 1024, src_vocab: 8000, tgt_vocab: 8000, dropout: 0.1, norm: "pre", positions: "sinusoidal", max_len: 5000, activation: "relu", share_embeddings: true },
  search: { beam_size: 5, length_penalty: 0.6, n_best: 1 },
  examples: ["Two brown dogs are running across the snowy meadow.", "两只棕色的狗在下雪的草地上跑。", "A tag such as </script> is only text."],
  training: true, pairs: 1014, rightToLeft: { source: false, target: false },
};

/** A model whose sources run from right to left. */
export const RIGHT_TO_LEFT = {
  ...MODEL, name: "mock-ar", sourceLanguage: "ar", targetLanguage: "en", examples: ["كلبان بنيان يتراكضان في المرج الثلجي."],
  rightToLeft: { source: true, target: false },
};
/** A model whose table of positions was learnt. */
export const LEARNED = { ...MODEL, name: "mock-learned", config: { ...MODEL.config, positions: "learned", max_len: 128 } };

/** Starts it; port 0 takes a free one. `model` null: a run that has saved none yet. `others` are served beside it. */
export async function startMock(port = 0, model = MODEL, others = []) {
  const saved = () => {
    if (!model) throw Object.assign(new Error("runs/young: nothing is there so far"), { code: "no-model-yet" });
    return model;
  };
  let heads = { state: "none", done: 0, of: 200, error: null, table: null };
  const api = {
    "GET models": () => [model ?? { name: "young" }, ...others].map(({ name }) => ({ name })),
    "GET model": (query) => others.find(({ name }) => name === query.model) ?? saved(),
    "POST translate": (_, body) => {
      if (body.text.includes("trouble")) throw new Error("the model folder has gone");
      return makeTrace(body, saved());
    },
    "GET positions": (query) => makePositions(Math.min(256, Number(query.length ?? 64)), saved().config),
    "GET heads": () => {
      if (heads.state === "running") heads = heads.done >= 150 ? { ...heads, state: "done", done: 200, table: makeTable(model) } : { ...heads, done: heads.done + 75 };
      return heads;
    },
    "POST heads": () => (heads = { ...heads, state: "running" }),
    "GET labs": (query) => makeLabs(query.lang),
    "GET training": (query) => makeTraining(Number(query.since ?? 0), true),
  };
  const answer = (method, path, query, body) => {
    const [first, second, third] = path;
    if (first === "trace") return third === "flow" ? makeFlow(second, query, model) : makeHead(second, query);
    if (first === "labs" && second) {
      if ((query.model ?? "0") !== "0") saved();
      return makeLab(second, query);
    }
    return api[`${method} ${first}`](query, body);
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    const path = url.pathname.split("/").filter(Boolean);
    try {
      if (path[0] === "api") {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : {};
        const result = answer(request.method, path.slice(1).map(decodeURIComponent), Object.fromEntries(url.searchParams), body);
        response.writeHead(200, { "Content-Type": "application/json", "Content-Security-Policy": POLICY });
        return response.end(JSON.stringify(result));
      }
      const file = path[0] ?? "index.html";
      const content = await readFile(new URL(file, STATIC));
      response.writeHead(200, { "Content-Type": TYPES[file.split(".").pop()], "Content-Security-Policy": POLICY });
      response.end(content);
    } catch (error) {
      response.writeHead(path[0] === "api" ? 400 : 404, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ error: error.message, code: error.code ?? "refused" }));
    }
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close(), LONG };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log((await startMock(Number(process.argv[2] ?? 8123))).url);
