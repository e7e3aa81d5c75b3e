import { useRef, useState } from "preact/hooks";
import { api, embedded, KINDS, type Flow, type Kind, type Model as ModelInfo, type Trace } from "../api";
import { columnAxis, items, rowAxis } from "../axes";
import { Chips } from "../components/Chips";
import { ExportBar } from "../components/ExportBar";
import { Field } from "../components/Field";
import { Figure1, type Part } from "../components/Figure1";
import { Loaded } from "../components/Loaded";
import { MapCanvas } from "../components/MapCanvas";
import { Segmented } from "../components/Segmented";
import { Strip } from "../components/Strip";
import { number, percent, t } from "../i18n";
import { useLoad } from "../load";
import { matrix, type Matrix } from "../matrix";
import { go } from "../router";
import { model, modelValue, traceValue } from "../state";
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
          <span lang={language("source").lang}>{trace.text}</span> →{" "}
          <span lang={language("target").lang}>{trace.translation}</span>
        </p>
        {embedded ? <EmbeddedChoice place={place} onChange={setPlace} /> : <Choice place={place} trace={trace} onChange={move} />}
        <Loaded of={flow} retry={retry}>
          {(value) => <Steps flow={value} trace={trace} kind={place.kind} part={part} />}
        </Loaded>
      </div>
    </div>
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

/** What happens to one token in one layer, from its embedding to what leaves; six steps, and the next word. */
function Steps({ flow, trace, kind, part }: { flow: Flow; trace: Trace; kind: Kind; part: Part }) {
  const keys = items(columnAxis(trace, kind), false).map(({ label }) => label);
  const root = Math.sqrt(flow.q.length);
  const d = modelValue.value?.config.d_model ?? flow.embedding.length;
  const preNorm = flow.normed !== null;
  const entering = t(kind === "cross" ? "flow.inputCross" : "flow.input", { layer: flow.layer + 1 });
  const step = (name: Part, order: number) => ({ name, order, open: name === part });
  return (
    <ol class="steps">
      <Step
        {...step("embedding", 1)}
        equation={`√${d} · E[${flow.token.text}] + PE[${flow.position}]`}
        vectors={{ embedding: flow.embedding, position_vector: flow.position_vector, sum: flow.sum }}
      >
        <Strip symbol="√d E" name={t("flow.embedding")} values={flow.embedding} />
        <Strip symbol="PE" name={t("flow.positionVector")} values={flow.position_vector} />
        <Strip symbol="=" name={t("flow.sum")} values={flow.sum} />
        {(flow.layer > 0 || kind === "cross") && <Strip symbol="x" name={entering} values={flow.input} />}
      </Step>
      <Step {...step("qkv", 2)} equation={`q = ${preNorm ? "LN(x)" : "x"} Wᵠ,  K = … Wᴷ,  V = … Wⱽ`} vectors={{ q: flow.q }}>
        {flow.normed && <Strip symbol="LN(x)" name={t("flow.normed")} values={flow.normed} />}
        <Strip symbol="q" name={t("flow.q")} values={flow.q} />
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
      <Step {...step("scores", 3)} equation={`softmax(q Kᵀ / √${flow.q.length} + mask)`} vectors={{}}>
        <Scores flow={flow} keys={keys} root={root} />
      </Step>
      <Step
        {...step("sum", 4)}
        equation="z = Σⱼ aⱼ vⱼ,  Concat(z₁ … z_h) Wᴼ"
        vectors={{ weighted_sum: flow.weighted_sum, attention_output: flow.attention_output }}
      >
        <Strip symbol="z" name={t("flow.weightedSum", { head: flow.head + 1 })} values={flow.weighted_sum} />
        <Strip symbol="Attention" name={t("flow.attentionOutput")} values={flow.attention_output} />
      </Step>
      <Step
        {...step("addnorm", 5)}
        equation={preNorm ? "x + Attention(LN(x))" : "LN(x + Attention(x))"}
        vectors={{ input: flow.input, attention_output: flow.attention_output, add_norm: flow.add_norm }}
      >
        <Strip symbol="x" name={entering} values={flow.input} />
        <Strip symbol="+ Attention" name={t("flow.attentionOutput")} values={flow.attention_output} />
        <Strip symbol="=" name={t(preNorm ? "flow.add" : "flow.addNorm")} values={flow.add_norm} />
      </Step>
      <Step
        {...step("feedforward", 6)}
        equation="max(0, y W₁ + b₁) W₂ + b₂"
        vectors={{ hidden: flow.hidden, feed_forward: flow.feed_forward, output: flow.output }}
      >
        {kind === "decoder" && <p class="hint">{t("flow.crossBetween")}</p>}
        <Strip
          symbol="max(0, ·)"
          name={t("flow.hidden", { share: percent(flow.hidden.filter((value) => value > 0).length / flow.hidden.length) })}
          values={flow.hidden}
        />
        <Strip symbol="FFN" name={t("flow.feedForward")} values={flow.feed_forward} />
        <Strip symbol="y + FFN" name={t("flow.output", { layer: flow.layer + 1 })} values={flow.output} />
      </Step>
      {flow.next && (
        <Step {...step("next", 7)} equation="softmax(y Eᵀ)" vectors={{}}>
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
  vectors: Record<string, number[]>;
  children: preact.ComponentChildren;
}) {
  const vectors = Object.entries(props.vectors);
  return (
    <li id={`step-${props.name}`} class={props.open ? "step current" : "step"} aria-current={props.open ? "step" : undefined}>
      <h2 class="sub">
        <span class="order">{props.order}</span> {t(`part.${props.name}`)}
      </h2>
      <p class="equation">{props.equation}</p>
      <p class="hint">{t(`part.${props.name}.explain`)}</p>
      {props.children}
      {vectors.length > 0 && (
        <ExportBar
          name={props.name}
          what={t(`part.${props.name}`)}
          table={() => ({
            columns: ["vector", "index", "value"],
            rows: vectors.flatMap(([name, values]) => values.map((value, i) => [name, i, value])),
          })}
        />
      )}
    </li>
  );
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
  );
}
