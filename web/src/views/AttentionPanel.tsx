import { useMemo } from "preact/hooks";
import { api, embedded, KINDS, type Head, type Trace } from "../api";
import { columnAxis, items, rowAxis } from "../axes";
import { Chips } from "../components/Chips";
import { Check, Field, Slider } from "../components/Field";
import { HeatMap } from "../components/HeatMap";
import { Loaded } from "../components/Loaded";
import { Segmented } from "../components/Segmented";
import { Thumbnails } from "../components/Thumbnails";
import { decodeBytes } from "../decode";
import { percent, t } from "../i18n";
import { useLoad } from "../load";
import { columnOf, fromBytes, keepColumns, largest, matrix, maxOf, meanOf, mergeWords, rowOf, type Matrix } from "../matrix";
import * as state from "../state";
import { language } from "./language";

/** Every head small, one head (or a summary) large, and the words that look at each other. */
export function AttentionPanel({ trace }: { trace: Trace }) {
  const { kind } = state.selection.value;
  const open = state.selection.value;
  const large = useMemo(() => <OpenMap trace={trace} />, [trace]); // it follows the signals by itself
  return (
    <section aria-labelledby="attention-title">
      <h3 id="attention-title">{t("attention.title")}</h3>
      <p class="hint">{t("attention.honest")}</p>
      <div class="row">
        <Segmented
          label={t("attention.kind")}
          value={state.allKinds.value ? "all" : kind}
          choices={[...KINDS.map((name) => [name, t(`kind.${name}`)] as const), ["all", t("kind.all")] as const]}
          onChange={(choice) => {
            state.allKinds.value = choice === "all";
            if (choice !== "all") state.select({ kind: choice });
          }}
        />
      </div>
      <p class="hint">{t(`kind.${kind}.explain`)}</p>
      <div class={state.allKinds.value ? "attention all" : "attention"}>
        <div class="thumbnail-side">
          {(state.allKinds.value ? KINDS : [kind]).map((name) => (
            <Thumbnails
              key={name}
              kind={name}
              maps={trace.attention[name]}
              log={state.logScale.value}
              off={state.off.value}
              open={name === kind ? open : null}
              onOpen={(layer, head) => state.select({ kind: name, layer, head })}
              onToggle={state.toggleHead}
              onToggleLayer={(layer) => state.toggleLayer(name, layer, trace.attention[name].heads)}
              canToggle={!embedded}
            />
          ))}
          <p class="hint">{t("thumbnails.hint")}</p>
          <OffLine trace={trace} />
        </div>
        {large}
      </div>
    </section>
  );
}

function OffLine({ trace }: { trace: Trace }) {
  const waiting = [...state.off.value].sort().join() !== [...trace.off].sort().join();
  if (embedded || (!waiting && !state.off.value.size)) return null;
  return (
    <p class="off-line">
      {state.off.value.size ? t("off.count", { count: state.off.value.size }) : t("off.none")}{" "}
      {waiting && (
        <button type="button" class="primary" onClick={() => void state.translate()}>
          {t("off.again")}
        </button>
      )}
    </p>
  );
}

/** One head at full precision, or a summary made of the thumbnails' rounded weights. */
function OpenMap({ trace }: { trace: Trace }) {
  const { kind, layer, head } = state.selection.value;
  const maps = trace.attention[kind];
  const one = typeof layer === "number" && typeof head === "number";
  const [loaded, retry] = useLoad<Head>(`${trace.id}.${kind}.${layer}.${head}`, async () => {
    if (one) return api.head(trace, kind, layer, head);
    const bytes = decodeBytes(maps.weights);
    const all = (count: number) => Array.from({ length: count }, (_, i) => i);
    const layers = typeof layer === "number" ? [layer] : all(maps.layers);
    const heads = typeof head === "number" ? [head] : all(maps.heads);
    const matrices = layers.flatMap((l) => heads.map((h) => fromBytes(maps, bytes, l, h)));
    const summary = head === "max" ? maxOf(matrices) : meanOf(matrices);
    return { rows: summary.rows, columns: summary.columns, weights: summary.data, norms: null };
  });
  const range = (count: number) => Array.from({ length: count }, (_, i) => i);
  return (
    <div class="open-map">
      <div class="row">
        <Field label={t("attention.layer")}>
          <select
            value={String(layer)}
            onChange={({ currentTarget: { value } }) => state.select({ layer: value === "all" ? "all" : Number(value) })}
          >
            {range(maps.layers).map((i) => (
              <option key={i} value={i}>
                {i + 1}
              </option>
            ))}
            <option value="all">{t("attention.allLayers")}</option>
          </select>
        </Field>
        <Field label={t("attention.head")}>
          <select
            value={String(head)}
            onChange={({ currentTarget: { value } }) =>
              state.select({ head: value === "mean" || value === "max" ? value : Number(value) })
            }
          >
            {layer !== "all" &&
              range(maps.heads).map((i) => (
                <option key={i} value={i}>
                  {i + 1}
                </option>
              ))}
            <option value="mean">{t("attention.mean")}</option>
            <option value="max">{t("attention.max")}</option>
          </select>
        </Field>
        <Segmented
          label={t("attention.units")}
          value={state.asWords.value ? "words" : "pieces"}
          choices={[
            ["words", t("attention.words")],
            ["pieces", t("attention.pieces")],
          ]}
          onChange={(choice) => {
            state.asWords.value = choice === "words";
            state.pinned.value = state.hovered.value = state.NOWHERE;
          }}
        />
        {kind !== "encoder" && (
          <Segmented
            label={t("attention.rows")}
            value={state.convention.value}
            choices={[
              ["predicts", t("rows.predicts")],
              ["input", t("rows.input")],
            ]}
            onChange={(choice) => (state.convention.value = choice)}
          />
        )}
      </div>
      <Loaded of={loaded} retry={retry}>
        {(value) => (value.rows === maps.rows && value.columns === maps.columns ? <Shown trace={trace} head={value} one={one} /> : null)}
      </Loaded>
    </div>
  );
}

/** What the large map shows, in words. */
function describe(): string {
  const { kind, layer, head } = state.selection.value;
  const name = t(`kind.${kind}`);
  if (layer === "all") return t(head === "max" ? "summary.maxAll" : "summary.meanAll", { kind: name });
  if (typeof head === "number") return t("head.name", { kind: name, layer: layer + 1, head: head + 1 });
  return t(head === "max" ? "summary.max" : "summary.mean", { kind: name, layer: layer + 1 });
}

function Shown({ trace, head, one }: { trace: Trace; head: Head; one: boolean }) {
  const { kind, head: how } = state.selection.value;
  const norms = state.showNorms.value && head.norms !== null;
  const words = state.asWords.value && !norms;
  const rowsAxis = rowAxis(trace, kind, state.convention.value);
  const columnsAxis = columnAxis(trace, kind);
  const rowItems = items(rowsAxis, words);
  const allColumns = items(columnsAxis, words);
  const kept = allColumns.flatMap((item, i) => (state.hideSeparators.value && item.separator ? [] : [i]));
  const hidden = allColumns.length - kept.length;
  const columnItems = kept.map((i) => allColumns[i]);

  const map = useMemo<Matrix>(() => {
    const raw = matrix(head.rows, head.columns, norms ? head.norms! : head.weights);
    const merged = words ? mergeWords(raw, rowsAxis.words, columnsAxis.words) : raw;
    return kept.length < allColumns.length ? keepColumns(merged, kept, !norms && how !== "max") : merged;
  }, [head, norms, words, state.hideSeparators.value, kind, state.convention.value]);

  const { row, column } = state.focus.value;
  const rowSide = language(rowsAxis.side);
  const columnSide = language(columnsAxis.side);
  const title = norms ? t("summary.norms", { what: describe() }) : describe();
  const most = norms ? largest(map) || 1 : 1;
  const byRow = row !== null && row < map.rows ? rowOf(map, row) : null;
  const byColumn = column !== null && column < map.columns ? columnOf(map, column) : null;
  const scaled = (values: Float32Array | null) => values && values.map((value) => value / most);
  const rowTitle = t(kind === "encoder" ? "axis.query" : state.convention.value === "input" ? "axis.input" : "axis.predicts");
  const pin = (next: state.Focus) => {
    const before = state.pinned.value;
    state.pinned.value = before.row === next.row && before.column === next.column ? state.NOWHERE : next;
  };
  const notes = [
    !one && t("summary.rounded"),
    how === "max" && t("summary.maxNote"),
    words && t("attention.wordsNote"),
    state.showNorms.value && head.norms && t("attention.normsNote"),
    hidden > 0 && t(!norms && how !== "max" ? "attention.hiddenNote" : "attention.hiddenOnly", { count: hidden }),
    columnSide.rightToLeft && t("attention.orderNote"),
    state.threshold.value > 0 && t("attention.thresholdNote", { value: percent(state.threshold.value) }),
    state.logScale.value && t("attention.logNote"),
  ].filter(Boolean);

  return (
    <>
      <h4 class="map-title">{title}</h4>
      <div class="linked">
        <p class="chips-name">{t(`chips.${columnsAxis.side}Keys`)}</p>
        <Chips
          label={t(`chips.${columnsAxis.side}Keys`)}
          items={columnItems}
          {...columnSide}
          weights={scaled(byRow)}
          active={column}
          onHover={(index) => (state.hovered.value = { row: null, column: index })}
          onPick={(index) => pin({ row: null, column: index })}
        />
        <p class="chips-name">{t(`chips.${rowsAxis.side}Queries`)}</p>
        <Chips
          label={t(`chips.${rowsAxis.side}Queries`)}
          items={rowItems}
          {...rowSide}
          weights={scaled(byColumn)}
          active={row}
          onHover={(index) => (state.hovered.value = { row: index, column: null })}
          onPick={(index) => pin({ row: index, column: null })}
        />
      </div>
      <HeatMap
        title={title}
        fileName={`attention-${kind}-${String(state.selection.value.layer)}-${String(how)}`}
        map={map}
        rowLabels={rowItems.map(({ label }) => label)}
        columnLabels={columnItems.map(({ label }) => label)}
        rowTitle={rowTitle}
        columnTitle={t("axis.key")}
        rowLang={rowSide.lang}
        columnLang={columnSide.lang}
        most={most}
        threshold={state.threshold.value * most}
        log={state.logScale.value}
        focus={state.focus.value}
        onHover={(next) => (state.hovered.value = next)}
        onPin={pin}
      />
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((words) => (
            <li key={String(words)}>{words}</li>
          ))}
        </ul>
      )}
      <div class="row">
        <Slider
          label={t("attention.threshold")}
          value={state.threshold.value}
          min={0}
          max={0.5}
          step={0.01}
          show={percent}
          onInput={(value) => (state.threshold.value = value)}
        />
        <Check label={t("attention.hide")} checked={state.hideSeparators.value} onChange={(on) => (state.hideSeparators.value = on)} />
        <Check label={t("attention.log")} checked={state.logScale.value} onChange={(on) => (state.logScale.value = on)} />
        {head.norms && (
          <Check label={t("attention.norms")} checked={state.showNorms.value} onChange={(on) => (state.showNorms.value = on)} />
        )}
        {one && !embedded && <HeadSwitch />}
      </div>
    </>
  );
}

function HeadSwitch() {
  const { kind, layer, head } = state.selection.value;
  if (typeof layer !== "number" || typeof head !== "number") return null;
  const name = state.headName(kind, layer, head);
  return <Check label={t("head.switchOff")} checked={state.off.value.has(name)} onChange={() => state.toggleHead(name)} />;
}
