import { useMemo, useState } from "preact/hooks";
import { api, type Positions as Table } from "../api";
import { Curves } from "../components/Curves";
import { ExportBar } from "../components/ExportBar";
import { Field, Slider } from "../components/Field";
import { Loaded } from "../components/Loaded";
import { MapCanvas } from "../components/MapCanvas";
import { decodeFloats } from "../decode";
import { svgText } from "../export";
import { number, t } from "../i18n";
import { useLoad } from "../load";
import { at, matrix, rowOf, type Matrix } from "../matrix";
import { distances, frequency, gram } from "../positions";
import { palette } from "../theme";

const LENGTHS = [32, 64, 128, 256];

/** The model's own table of positions: as numbers, as waves, as similarity, as clocks. */
export function Positions() {
  const [length, setLength] = useState(64);
  const [table, retry] = useLoad(`positions ${length}`, () => api.positions(length));
  return (
    <>
      <p class="lead">{t("positions.lead")}</p>
      <Field label={t("positions.length")}>
        <select value={String(length)} onChange={({ currentTarget }) => setLength(Number(currentTarget.value))}>
          {LENGTHS.map((count) => (
            <option key={count}>{count}</option>
          ))}
        </select>
      </Field>
      <Loaded of={table} retry={retry}>
        {(value) => <Shown key={`${value.kind}${value.length}`} table={value} />}
      </Loaded>
    </>
  );
}

function Shown({ table }: { table: Table }) {
  const map = useMemo(() => matrix(table.length, table.d_model, decodeFloats(table.table)), [table]);
  const products = useMemo(() => gram(map), [map]);
  const [position, setPosition] = useState(Math.min(10, table.length - 1));
  const sinusoidal = table.kind === "sinusoidal";
  const name = (row: number) => t("positions.position", { position: row });
  return (
    <>
      {sinusoidal ? <Formula d={table.d_model} /> : <p class="notice">{t("positions.learned", { kind: table.kind })}</p>}
      <Slider label={t("positions.slider")} value={position} min={0} max={table.length - 1} onInput={setPosition} />
      <section>
        <MapCanvas
          title={t("positions.table")}
          fileName="positions"
          map={map}
          rowName={name}
          columnName={(d) => t("positions.dimension", { dimension: d })}
          rowTitle={t("positions.rows")}
          columnTitle={t("positions.columns")}
          cell={{ width: Math.max(1, Math.round(760 / table.d_model)), height: Math.max(2, Math.round(320 / table.length)) }}
          marked={position}
        />
      </section>
      <Waves map={map} position={position} />
      {sinusoidal && <Clocks map={map} position={position} />}
      <div class="pair">
        <section>
          <MapCanvas
            title={t("positions.gram")}
            fileName="positions-similarity"
            map={products}
            rowName={name}
            columnName={name}
            rowTitle={t("positions.rows")}
            columnTitle={t("positions.rows")}
            cell={{ width: Math.max(1, Math.round(320 / table.length)), height: Math.max(1, Math.round(320 / table.length)) }}
            marked={position}
          />
          <p class="hint">{t(sinusoidal ? "positions.gramExplain" : "positions.gramLearned")}</p>
        </section>
        <section>
          <Curves
            title={t("positions.curves", { position })}
            fileName="positions-distance"
            xName={t("positions.rows")}
            marked={position}
            series={[
              { name: t("positions.product"), points: [...rowOf(products, position)].map((y, x) => [x, y]) },
              { name: t("positions.distance"), points: distances(map, position).map((y, x) => [x, y]) },
            ]}
          />
        </section>
      </div>
    </>
  );
}

function Formula({ d }: { d: number }) {
  return (
    <div class="formula" role="math" aria-label="PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d))">
      <p aria-hidden="true">
        PE<sub>p, 2i</sub> = sin(p / 10000<sup>2i/d</sup>)
      </p>
      <p aria-hidden="true">
        PE<sub>p, 2i+1</sub> = cos(p / 10000<sup>2i/d</sup>)
      </p>
      <p class="hint">{t("positions.formula", { d })}</p>
    </div>
  );
}

function Waves({ map, position }: { map: Matrix; position: number }) {
  const standard = [0, 1, 8, 9, 32].filter((dimension) => dimension < map.columns);
  const [words, setWords] = useState(standard.join(", "));
  const dimensions = [...new Set(words.split(/[\s,，、]+/).filter(Boolean).map(Number))]
    .filter((d) => Number.isInteger(d) && d >= 0 && d < map.columns)
    .slice(0, 6);
  return (
    <section>
      <Field label={t("positions.choose", { last: map.columns - 1 })}>
        <input type="text" inputMode="numeric" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </Field>
      {dimensions.length ? (
        <Curves
          title={t("positions.waves")}
          fileName="positions-waves"
          xName={t("positions.rows")}
          marked={position}
          series={dimensions.map((d) => ({
            name: t("positions.dimension", { dimension: d }),
            points: Array.from({ length: map.rows }, (_, p) => [p, at(map, p, d)]),
          }))}
        />
      ) : (
        <p class="hint">{t("positions.none")}</p>
      )}
    </section>
  );
}

/** Pairs of dimensions (sin, cos) as the hand of a clock: the angle is p ω. */
function Clocks({ map, position }: { map: Matrix; position: number }) {
  const pairs = [0, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2].map((share) => Math.round(share * (map.columns / 2)));
  const shown = [...new Set(pairs)].filter((pair) => 2 * pair + 1 < map.columns);
  const { ink, muted, line, accent, paper } = palette.value;
  const hands = shown.map((pair) => ({
    pair,
    sine: at(map, position, 2 * pair),
    cosine: at(map, position, 2 * pair + 1),
    turn: (2 * Math.PI) / frequency(pair, map.columns),
  }));
  return (
    <section>
      <figure>
        <figcaption>
          <span class="figure-title">{t("positions.clocks", { position })}</span>
          <ExportBar
            name="positions-clocks"
            what={t("positions.clocks", { position })}
            svg={() => svgText(document.querySelector<SVGSVGElement>("#clocks")!, paper)}
            table={() => ({
              columns: ["pair", "sin", "cos", "positions_per_turn"],
              rows: hands.map(({ pair, sine, cosine, turn }) => [pair, sine, cosine, turn]),
            })}
          />
        </figcaption>
        <p class="hint">{t("positions.clocksExplain")}</p>
        <div class="picture">
          <svg
            id="clocks"
            viewBox={`0 0 ${shown.length * 130} 168`}
            style={{ width: `${shown.length * 130}px` }}
            role="img"
            aria-label={hands
              .map(({ pair, sine, cosine }) => `i = ${pair}: sin ${number(sine)}, cos ${number(cosine)}`)
              .join("; ")}
          >
            {hands.map(({ pair, sine, cosine, turn }, i) => (
              <g key={pair} transform={`translate(${i * 130 + 65} 60)`} font-size="11">
                <circle r="50" fill="none" stroke={line} stroke-width="1.5" />
                <path d="M0 -50V-44M50 0H44M0 50V44M-50 0H-44" stroke={muted} />
                <line x2={50 * sine} y2={-50 * cosine} stroke={accent} stroke-width="3" stroke-linecap="round" />
                <circle r="3" fill={ink} />
                <text y="70" text-anchor="middle" fill={ink}>
                  i = {pair}
                </text>
                <text y="85" text-anchor="middle" fill={muted}>
                  {t("positions.turn", { count: turn < 100 ? turn.toFixed(1) : Math.round(turn) })}
                </text>
                <text y="100" text-anchor="middle" fill={muted}>
                  {number(sine, 2)} · {number(cosine, 2)}
                </text>
              </g>
            ))}
          </svg>
        </div>
      </figure>
    </section>
  );
}
