import { useRef, useState } from "preact/hooks";
import { api, embedded, KINDS, type Flow, type Kind, type Model as ModelInfo, type Trace } from "../api";
import { columnAxis, items, rowAxis } from "../axes";
import { isolate } from "../bidi";
import { Chips } from "../components/Chips";
import { ExportBar } from "../components/ExportBar";
import { Field } from "../components/Field";
import { Figure1, type Part } from "../components/Figure1";
import { Loaded } from "../components/Loaded";
import { MapCanvas } from "../components/MapCanvas";
import { Segmented } from "../components/Segmented";
import { Strip } from "../components/Strip";
import { textWidth } from "../components/text";
import { barsSvg, stripsSvg } from "../export";
import { number, percent, t } from "../i18n";
import { useLoad } from "../load";
import { matrix, type Matrix } from "../matrix";
import { go } from "../router";
import { model, modelValue, traceValue } from "../state";
import { palette } from "../theme";
import { language } from "./language";

interface Place {
  kind: Kind;
  layer: number;
  head: number;
  position: number;
}

function embeddedPlaces(): Place[] {
  return Object.entries(embedded?.flow ?? {}).map(([key, { layer, head, position }]) => ({
    kind: key.split(".")[0] as Kind, layer, head, position,
  }));
}

const FIRST: Place = { kind: "encoder", layer: 0, head: 0, position: 0 };

/** Figure 1 as a map, and the numbers of the present sentence behind every box. */
export function Model() {
  const trace = traceValue.value;
  return (
    <Loaded of={model.value}>
      {(info) => (
        <>
          <Facts info={info} />
          {trace ? (
            <Explorer key={trace.id} trace={trace} info={info} />
          ) : (
            <div class="empty">
              <p>{t("model.empty")}</p>
              <button type="button" class="primary" onClick={() => go("translate")}>
                {t("model.toTranslate")}
              </button>
            </div>
          )}
        </>
      )}
    </Loaded>
  );
}

function Facts({ info }: { info: ModelInfo }) {
  const { config } = info;
  const facts: [string, string | number][] = [
    [t("model.parameters"), info.parameters.toLocaleString("en")],
    ["d_model", config.d_model],
    [t("model.heads"), config.n_heads],
    [t("model.layers"), `${config.num_encoder_layers} + ${config.num_decoder_layers}`],
    ["d_ff", config.d_ff],
    [t("model.norm"), String(config.norm ?? "–")],
    [t("model.positions"), String(config.positions ?? "–")],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Explorer({ trace, info }: { trace: Trace; info: ModelInfo }) {
  const [place, setPlace] = useState(() => embeddedPlaces()[0] ?? FIRST);
  const [part, setPart] = useState<Part>("embedding");
  const steps = useRef<HTMLDivElement>(null);
  const move = (next: Partial<Place>) => {
    if (embedded) return setPlace(embeddedPlaces().find(({ kind }) => kind === next.kind) ?? place);
    const to = { ...place, ...next };
    const { layers, heads, rows } = trace.attention[to.kind];
    setPlace({
      kind: to.kind,
      layer: Math.min(to.layer, layers - 1),
      head: Math.min(to.head, heads - 1),
      position: Math.min(to.position, rows - 1),
    });
  };
  const [flow, retry] = useLoad(`${trace.id} ${JSON.stringify(place)}`, () =>
    api.flow(trace, place.kind, place.layer, place.head, place.position),
  );
  const show = (next: Part, kind: Kind) => {
    setPart(next);
    if (kind !== place.kind) move({ kind });
    requestAnimationFrame(() =>
      steps.current?.querySelector(`#step-${next}`)?.scrollIntoView({
        block: "start",
        behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
      }),
    );
  };
  return (
    <div class="explorer">
      <Figure1 kind={place.kind} part={part} layers={[info.config.num_encoder_layers, info.config.num_decoder_layers]} preNorm={info.config.norm === "pre"} onOpen={show} />
      <div class="flow" ref={steps}>
        <p class="sentences">
          <Sentence side="source" words={trace.text} /> → <Sentence side="target" words={trace.translation} />
        </p>
        {embedded ? <EmbeddedChoice place={place} onChange={setPlace} /> : <Choice place={place} trace={trace} onChange={move} />}
        <Loaded of={flow} retry={retry}>
          {(value) => <Steps flow={value} trace={trace} kind={place.kind} part={part} />}
        </Loaded>
      </div>
    </div>
  );
}

function Sentence({ side, words }: { side: "source" | "target"; words: string }) {
  const { lang, rightToLeft } = language(side);
  return (
    <span lang={lang} dir={rightToLeft ? "rtl" : "auto"}>
      {words}
    </span>
  );
}

/** Whose numbers: attention, layer, head, and the token whose way is followed. */
function Choice({ place, trace, onChange }: { place: Place; trace: Trace; onChange: (next: Partial<Place>) => void }) {
  const maps = trace.attention[place.kind];
  const axis = rowAxis(trace, place.kind, "input");
  const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
  return (
    <>
      <div class="row">
        <Segmented
            label={t("attention.kind")}
            value={place.kind}
            choices={KINDS.map((kind) => [kind, t(`kind.${kind}`)] as const)}
            onChange={(kind) => onChange({ kind })}
          />
        <Field label={t("attention.layer")}>
          <select value={String(place.layer)} onChange={({ currentTarget }) => onChange({ layer: Number(currentTarget.value) })}>
              {numbers(maps.layers).map((i) => (
              <option key={i} value={i}>
                  {i + 1}
              </option>
              ))}
          </select>
        </Field>
        <Field label={t("attention.head")}>
          <select value={String(place.head)} onChange={({ currentTarget }) => onChange({ head: Number(currentTarget.value) })}>
              {numbers(maps.heads).map((i) => (
              <option key={i} value={i}>
                  {i + 1}
              </option>
              ))}
          </select>
        </Field>
      </div>
      <p class="chips-name">{t("model.position")}</p>
      <Chips
          label={t("model.position")}
          items={items(axis, false)}
          {...language(axis.side)}
          active={place.position}
          onPick={(position) => onChange({ position })}
        />
    </>
  );
}

/** A page without a server has the numbers of a few places only. */
function EmbeddedChoice({ place, onChange }: { place: Place; onChange: (next: Place) => void }) {
  const places = embeddedPlaces();
  const name = (one: Place) => t("head.name", { kind: t(`kind.${one.kind}`), layer: one.layer + 1, head: one.head + 1 });
  return (
    <Field label={t("model.embedded")}>
      <select
        value={String(places.findIndex((one) => JSON.stringify(one) === JSON.stringify(place)))}
        onChange={({ currentTarget }) => onChange(places[Number(currentTarget.value)])}
      >
        {places.map((one, i) => (
          <option key={i} value={i}>
            {name(one)}
          </option>
        ))}
      </select>
    </Field>
  );
}

const keyMatrix = (rows: number[][]): Matrix => matrix(rows.length, rows[0]?.length ?? 0, Float32Array.from(rows.flat()));

/** A vector of a step: its field in the answer, and how it is named beside its picture. */
interface Vector {
  field: string;
  symbol: string;
  name: string;
  values: number[];
}

/** What happens to one token in one layer, from its embedding to what leaves; six steps, and the next word. */
function Steps({ flow, trace, kind, part }: { flow: Flow; trace: Trace; kind: Kind; part: Part }) {
  const keys = items(columnAxis(trace, kind), false).map(({ label }) => label);
  const root = Math.sqrt(flow.q.length);
  const d = modelValue.value?.config.d_model ?? flow.embedding.length;
  const preNorm = flow.normed !== null;
  const step = (name: Part, order: number) => ({ name, order, open: name === part });
  const vector = (field: string, symbol: string, name: string, values: number[]): Vector => ({ field, symbol, name, values });
  const input = vector("input", "x", t(kind === "cross" ? "flow.inputCross" : "flow.input", { layer: flow.layer + 1 }), flow.input);
  const attention = (symbol: string) => vector("attention_output", symbol, t("flow.attentionOutput"), flow.attention_output);
  const fire = percent(flow.hidden.filter((value) => value > 0).length / flow.hidden.length);
  return (
    <ol class="steps">
      <Step
        {...step("embedding", 1)}
        equation={`√${d} · E[${isolate(flow.token.text)}] + PE[${flow.position}]`}
        vectors={[
          vector("embedding", "√d E", t("flow.embedding"), flow.embedding),
          vector("position_vector", "PE", t("flow.positionVector"), flow.position_vector),
          vector("sum", "=", t("flow.sum"), flow.sum),
          ...(flow.layer > 0 || kind === "cross" ? [input] : []),
        ]}
      />
      <Step
        {...step("qkv", 2)}
        equation={`q = ${preNorm ? "LN(x)" : "x"} Wᵠ,  K = … Wᴷ,  V = … Wⱽ`}
        vectors={[
          ...(flow.normed ? [vector("normed", "LN(x)", t("flow.normed"), flow.normed)] : []),
          vector("q", "q", t("flow.q"), flow.q),
        ]}
      >
        <div class="pair">
          {(["k", "v"] as const).map((letter) => (
            <MapCanvas
              key={letter}
              title={`${letter.toUpperCase()} – ${t(`flow.${letter}`)}`}
              fileName={letter}
              map={keyMatrix(flow[letter])}
              rowName={(row) => keys[row] ?? String(row)}
              columnName={(column) => `[${column}]`}
              rowTitle={t("axis.key")}
              columnTitle={t("flow.dimension")}
              cell={{ width: Math.max(3, Math.round(300 / flow.q.length)), height: 10 }}
            />
          ))}
        </div>
      </Step>
      <Step {...step("scores", 3)} equation={`softmax(q Kᵀ / √${flow.q.length} + mask)`}>
        <Scores flow={flow} keys={keys} root={root} />
      </Step>
      <Step
        {...step("sum", 4)}
        equation="z = Σⱼ aⱼ vⱼ,  Concat(z₁ … z_h) Wᴼ"
        vectors={[
          vector("weighted_sum", "z", t("flow.weightedSum", { head: flow.head + 1 }), flow.weighted_sum),
          attention("Attention"),
        ]}
      />
      <Step
        {...step("addnorm", 5)}
        equation={preNorm ? "x + Attention(LN(x))" : "LN(x + Attention(x))"}
        vectors={[
          input,
          attention("+ Attention"),
          vector("add_norm", "=", t(preNorm ? "flow.add" : "flow.addNorm"), flow.add_norm),
        ]}
      />
      <Step
        {...step("feedforward", 6)}
        equation="max(0, y W₁ + b₁) W₂ + b₂"
        note={kind === "decoder" ? t("flow.crossBetween") : undefined}
        vectors={[
          vector("hidden", "max(0, ·)", t("flow.hidden", { share: fire }), flow.hidden),
          vector("feed_forward", "FFN", t("flow.feedForward"), flow.feed_forward),
          vector("output", "y + FFN", t("flow.output", { layer: flow.layer + 1 }), flow.output),
        ]}
      />
      {flow.next && (
        <Step {...step("next", 7)} equation="softmax(y Eᵀ)">
          <Next next={flow.next} />
        </Step>
      )}
    </ol>
  );
}

function Step(props: {
  name: Part;
  order: number;
  open: boolean;
  equation: string;
  note?: string;
  vectors?: Vector[];
  children?: preact.ComponentChildren;
}) {
  const { vectors = [] } = props;
  const title = t(`part.${props.name}`);
  return (
    <li id={`step-${props.name}`} class={props.open ? "step current" : "step"} aria-current={props.open ? "step" : undefined}>
      <h2 class="sub">
        <span class="order">{props.order}</span> {title}
      </h2>
      <p class="equation">{props.equation}</p>
      <p class="hint">{t(`part.${props.name}.explain`)}</p>
      {props.note && <p class="hint">{props.note}</p>}
      {vectors.map(({ field, symbol, name, values }) => (
        <Strip key={field} symbol={symbol} name={name} values={values} />
      ))}
      {vectors.length > 0 && (
        <ExportBar
          name={props.name}
          what={title}
          svg={() => stripsSvg(vectors.map(({ symbol, name, values }) => ({ label: vectorLabel(symbol, name, values), values })), palette.value)}
          table={() => ({
            columns: ["vector", "index", "value"],
            rows: vectors.flatMap(({ field, values }) => values.map((value, i) => [field, i, value])),
          })}
        />
      )}
      {props.children}
    </li>
  );
}

/** A saved strip says its scale, as the one on the page does below it. */
function vectorLabel(symbol: string, name: string, values: number[]): string {
  const limit = Math.max(...values.map(Math.abs));
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return `${symbol}  ${name} · ${t("strip.summary", { count: values.length, limit: number(limit, 2), length: number(length, 2) })}`;
}

/** A line a key: score, mask, weight. */
function Scores({ flow, keys, root }: { flow: Flow; keys: string[]; root: number }) {
  return (
    <>
      <div class="table-scroll short" role="region" aria-label={t("flow.table")} tabIndex={0}>
        <table class="scores">
          <thead>
            <tr>
              <th scope="col">{t("axis.key")}</th>
              <th scope="col">q·k</th>
              <th scope="col">q·k / √d_k</th>
              <th scope="col">{t("flow.mask")}</th>
              <th scope="col">{t("flow.weight")}</th>
            </tr>
          </thead>
          <tbody>
            {flow.scores.map((score, i) => (
              <tr key={i} class={flow.masked[i] ? "" : "closed"}>
                <th scope="row">
                  <bdi>{keys[i]}</bdi>
                </th>
                <td>{number(score * root, 2)}</td>
                <td>{number(score, 2)}</td>
                <td>{flow.masked[i] ? t("flow.may") : t("flow.mayNot")}</td>
                <td>
                  <span class="bar" style={{ width: `${80 * flow.weights[i]}px` }} /> {number(flow.weights[i], 4)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <ExportBar
        name="scores"
        what={t("part.scores")}
        svg={() => {
          const bars = flow.weights.map((value, i) => ({
            label: keys[i],
            value,
            note: flow.masked[i] ? number(value, 4) : t("flow.mayNot"),
          }));
          return barsSvg(`${t("part.scores")} · ${t("flow.weight")}`, bars, palette.value, textWidth);
        }}
        table={() => ({
          columns: ["key", "score", "may_attend", "weight"],
          rows: flow.scores.map((score, i) => [keys[i], score, flow.masked[i], flow.weights[i]]),
        })}
      />
    </>
  );
}

function Next({ next }: { next: NonNullable<Flow["next"]> }) {
  return (
    <>
      <table class="scores" lang={language("target").lang}>
        <thead>
          <tr>
            <th scope="col">{t("flow.nextToken")}</th>
            <th scope="col">{t("flow.probability")}</th>
          </tr>
        </thead>
        <tbody>
          {next.map(({ token, probability }) => (
            <tr key={token.id}>
              <th scope="row">
                <bdi>{token.text}</bdi>
              </th>
              <td>
                <span class="bar" style={{ width: `${160 * probability}px` }} /> {percent(probability)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ExportBar
        name="next-word"
        what={t("part.next")}
        svg={() => {
          const bars = next.map(({ token, probability }) => ({ label: token.text, value: probability, note: percent(probability) }));
          return barsSvg(t("part.next"), bars, palette.value, textWidth);
        }}
        table={() => ({
          columns: ["token", "id", "probability"],
          rows: next.map(({ token, probability }) => [token.text, token.id, probability]),
        })}
      />
    </>
  );
}
