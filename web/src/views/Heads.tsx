import { useEffect, useState } from "preact/hooks";
import { api, embedded, KINDS, type HeadRow, type HeadTable, type HeadsReport, type Kind } from "../api";
import { css, inkOn, sequential, type Rgb } from "../colour";
import { ExportBar } from "../components/ExportBar";
import { Field } from "../components/Field";
import { Loaded } from "../components/Loaded";
import { gridsSvg } from "../export";
import { named, number, percent, t } from "../i18n";
import { useLoad } from "../load";
import { go } from "../router";
import { modelValue, select } from "../state";
import { palette } from "../theme";

const LIMIT = 200;

/** What every head does over the validation pairs. */
export function Heads() {
  const [report, again] = useLoad("heads", () => api.heads(LIMIT));
  const running = report.state === "ready" && report.value.state === "running";
  useEffect(() => {
    if (!running) return;
    const timer = setTimeout(again, 1000);
    return () => clearTimeout(timer);
  }, [report]);
  return (
    <>
      <p class="lead">{t("heads.lead")}</p>
      <Loaded of={report} retry={again}>
        {(value) => (value.table ? <Table table={value.table} /> : <Start report={value} again={again} />)}
      </Loaded>
    </>
  );
}

function Start({ report, again }: { report: HeadsReport; again: () => void }) {
  const pairs = modelValue.value?.pairs ?? 0;
  const [trouble, setTrouble] = useState("");
  const start = () =>
    api.startHeads(LIMIT).then(again, (error: Error) => setTrouble(error.message || t("error.gone")));
  if (report.state === "running")
    return (
      <div class="empty" role="status">
        <p>{t("heads.running", { share: percent(report.done / (report.of || 1)) })}</p>
        <progress value={report.done} max={report.of || 1} aria-label={t("heads.progress")} />
      </div>
    );
  if (!pairs) return <div class="empty">{t("heads.noPairs")}</div>;
  return (
    <div class="empty">
      {(report.error || trouble) && (
        <p class="notice bad" role="alert">
          {report.error || trouble}
        </p>
      )}
      <p>{t("heads.none", { pairs: Math.min(pairs, LIMIT) })}</p>
      <button type="button" class="primary" onClick={() => void start()}>
        {t("heads.start")}
      </button>
    </div>
  );
}

const headLabel = ({ kind, layer, head }: HeadRow) =>
  t("head.name", { kind: t(`kind.${kind}`), layer: layer + 1, head: head + 1 });

function openHead({ kind, layer, head }: HeadRow): void {
  select({ kind, layer, head });
  go("translate");
}

function Table({ table }: { table: HeadTable }) {
  const [measure, setMeasure] = useState(table.measures[0]?.name ?? "");
  const [sort, setSort] = useState<{ by: string; down: boolean }>({ by: measure, down: true });
  const [chosen, setChosen] = useState<HeadRow | null>(null);
  const sorted = [...table.heads].sort((a, b) => {
    const order = (b.values[sort.by] ?? -Infinity) - (a.values[sort.by] ?? -Infinity) || 0;
    return sort.down ? order : -order;
  });
  const chance = KINDS.flatMap((kind) => {
    const value = table.baselines[kind]?.[measure];
    return value == null ? [] : [`${t(`kind.${kind}`)} ${number(value)}`];
  });
  const direction = table.measures.find(({ name }) => name === measure)?.direction ?? 1;
  const coloured = (kind: Kind) => gridRows(table.heads.filter((head) => head.kind === kind), measure, direction);
  const overview = t("heads.grids", { measure: named("measure", measure) });
  const columnSort = (name: string) => setSort({ by: name, down: sort.by === name ? !sort.down : true });
  return (
    <>
      <div class="row">
        <Field label={t("heads.measure")}>
          <select
            value={measure}
            onChange={({ currentTarget: { value } }) => {
              setMeasure(value);
              setSort({ by: value, down: true });
            }}
          >
            {table.measures.map(({ name }) => (
              <option key={name} value={name}>
                {named("measure", name)}
              </option>
            ))}
          </select>
        </Field>
        <p class="hint">
          {named("measure.explain", measure)} {t("heads.over", { pairs: table.pairs })}
          {chance.length > 0 && ` ${t("heads.baseline", { values: chance.join(" · ") })}`}
        </p>
      </div>
      <figure>
        <figcaption>
          <span class="figure-title">{overview}</span>
          <ExportBar
            name={`heads-${measure}`}
            what={overview}
            svg={() =>
              gridsSvg(
                `${overview} · ${t("heads.over", { pairs: table.pairs })}`,
                KINDS.map((kind) => ({ title: t(`kind.${kind}`), rows: coloured(kind) })),
                palette.value,
              )
            }
            table={() => ({
              columns: ["kind", "layer", "head", measure],
              rows: table.heads.map((head) => [head.kind, head.layer + 1, head.head + 1, head.values[measure] ?? null]),
            })}
          />
        </figcaption>
        <div class="head-grids">
          {KINDS.map((kind) => (
            <Grid key={kind} rows={coloured(kind)} title={t(`kind.${kind}`)} chosen={chosen} onChoose={setChosen} />
          ))}
        </div>
      </figure>
      {chosen && <Chosen head={chosen} table={table} onChoose={setChosen} />}
      <section>
        <h2 class="sub" id="list-title">
          {t("heads.list")}
        </h2>
        <ExportBar
          name="heads"
          what={t("heads.list")}
          table={() => ({
            columns: ["kind", "layer", "head", ...table.measures.map(({ name }) => name), "leans_to", "share", "baseline"],
            rows: sorted.map((head) => [
              head.kind, head.layer + 1, head.head + 1,
              ...table.measures.map(({ name }) => head.values[name] ?? null),
              head.leans?.to ?? null, head.leans?.share ?? null, head.leans?.baseline ?? null,
            ]),
          })}
        />
        <div class="table-scroll" role="region" aria-labelledby="list-title" tabIndex={0}>
          <table class="measures">
            <thead>
              <tr>
                <th scope="col">{t("attention.head")}</th>
                <th scope="col">{t("heads.leans")}</th>
                {table.measures.map(({ name }) => (
                  <th key={name} scope="col" aria-sort={sort.by === name ? (sort.down ? "descending" : "ascending") : "none"}>
                    <button type="button" class="quiet" onClick={() => columnSort(name)}>
                      {named("measure", name)} {sort.by === name ? (sort.down ? "↓" : "↑") : ""}
                    </button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {sorted.map((head) => (
                <tr key={headLabel(head)} class={head === chosen ? "chosen" : ""}>
                  <th scope="row">
                    <button type="button" class="quiet" onClick={() => setChosen(head)}>
                      {headLabel(head)}
                    </button>
                  </th>
                  <td>{leans(head)}</td>
                  {table.measures.map(({ name }) => (
                    <td key={name}>{head.values[name] == null ? "–" : number(head.values[name]!)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  );
}

function leans({ leans }: HeadRow): string {
  if (!leans) return "–";
  const { low, high } = leans;
  const interval = low != null && high != null ? `, ${t("heads.interval", { low: percent(low), high: percent(high) })}` : "";
  const words = t("heads.leansTo", { to: named("measure", leans.to), share: percent(leans.share) + interval });
  return leans.baseline == null ? words : t("heads.chance", { words, value: percent(leans.baseline) });
}

interface GridRow {
  label: string;
  cells: { head: HeadRow; colour: Rgb | null; words: string }[];
}

/** Layers down, heads across. With a `direction` of -1 low values stand out, and are dark. */
function gridRows(heads: HeadRow[], measure: string, direction: number): GridRow[] {
  const values = heads.map((head) => head.values[measure]).filter((value) => value != null) as number[];
  const [low, high] = [Math.min(0, ...values), Math.max(1e-9, ...values)];
  const layers = [...new Set(heads.map(({ layer }) => layer))];
  return layers.map((layer) => ({
    label: t("layer.short", { layer: layer + 1 }),
    cells: heads
      .filter((head) => head.layer === layer)
      .map((head) => {
        const value = head.values[measure];
        if (value == null) return { head, colour: null, words: "–" };
        const share = (value - low) / (high - low);
        return { head, colour: sequential(palette.value, direction < 0 ? 1 - share : share), words: number(value, 2) };
      }),
  }));
}

/** A cell a head, coloured by one measure; the number is in the cell. */
function Grid(props: { rows: GridRow[]; title: string; chosen: HeadRow | null; onChoose: (head: HeadRow) => void }) {
  return (
    <table class="head-grid">
      <caption>{props.title}</caption>
      <tbody>
        {props.rows.map(({ label, cells }) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            {cells.map(({ head, colour, words }) => (
              <td key={head.head}>
                <button
                  type="button"
                  aria-pressed={head === props.chosen}
                  aria-label={`${words} – ${headLabel(head)}`}
                  title={headLabel(head)}
                  style={colour ? { background: css(colour), color: inkOn(colour) } : {}}
                  onClick={() => props.onChoose(head)}
                >
                  {words}
                </button>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Chosen({ head, table, onChoose }: { head: HeadRow; table: HeadTable; onChoose: (head: HeadRow) => void }) {
  const similar = (head.similar ?? []).flatMap(({ kind, layer, head: h, distance }) => {
    const row = table.heads.find((other) => other.kind === kind && other.layer === layer && other.head === h);
    return row ? [{ row, distance }] : [];
  });
  return (
    <section class="chosen-head" aria-live="polite">
      <h2 class="sub">{headLabel(head)}</h2>
      <p>{leans(head)}</p>
      {head.examples.length > 0 && (
        <>
          <h3>{t("heads.examples")}</h3>
          <ul class="examples-list">
            {head.examples.map((example, i) => (
              <li key={i}>
                <span dir="auto">{example.text}</span>
                <small>
                  <bdi>{example.row}</bdi> → <bdi>{example.column}</bdi> · {number(example.weight, 2)}
                </small>
              </li>
            ))}
          </ul>
          <ExportBar
            name={`examples-${head.kind}-${head.layer + 1}-${head.head + 1}`}
            what={`${headLabel(head)}: ${t("heads.examples")}`}
            table={() => ({
              columns: ["text", "row", "column", "weight"],
              rows: head.examples.map(({ text, row, column, weight }) => [text, row, column, weight]),
            })}
          />
        </>
      )}
      {similar.length > 0 && (
        <>
          <h3>{t("heads.similar")}</h3>
          <p>
            {similar.map(({ row, distance }) => (
              <button type="button" class="quiet" key={headLabel(row)} onClick={() => onChoose(row)}>
                {headLabel(row)} ({number(distance)})
              </button>
            ))}
          </p>
        </>
      )}
      <button type="button" class="primary" onClick={() => openHead(head)}>
        {embedded ? t("heads.openHere") : t("heads.open")}
      </button>
    </section>
  );
}
