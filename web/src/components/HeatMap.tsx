import { useMemo, useRef, useState } from "preact/hooks";
import { anchored, isolate } from "../bidi";
import { css, inkOn, sequential, shade } from "../colour";
import { svgText, type Table } from "../export";
import { number, t } from "../i18n";
import { at, type Matrix } from "../matrix";
import { NOWHERE, type Focus } from "../state";
import { palette } from "../theme";
import { ExportBar } from "./ExportBar";
import { roving } from "./roving";
import { textWidth } from "./text";

interface Props {
  title: string;
  fileName: string;
  map: Matrix;
  rowLabels: string[];
  columnLabels: string[];
  rowTitle: string;
  columnTitle: string;
  rowLang?: string;
  columnLang?: string;
  /** The value that has the strongest colour. */
  most: number;
  threshold: number;
  log: boolean;
  focus: Focus;
  onHover: (focus: Focus) => void;
  onPin: (focus: Focus) => void;
}

const SHOW_VALUES = 30; // cells at least this wide carry their number

/** One map, large: SVG for the eye, a real table for the keyboard and the screen reader, one value spoken at a time. */
export function HeatMap(props: Props) {
  const { map, rowLabels, columnLabels, focus } = props;
  const svg = useRef<SVGSVGElement>(null);
  const [asTable, setAsTable] = useState(false);
  const cell = Math.max(9, Math.min(40, Math.floor(760 / Math.max(map.columns, map.rows * 1.2))));
  const size = Math.min(13, Math.max(8, cell * 0.8));
  const left = 28 + Math.max(...rowLabels.map((label) => textWidth(label, size)));
  const top = 30 + Math.max(...columnLabels.map((label) => textWidth(label, size))) * 0.87 + size / 2;
  const right = 12 + Math.max(0, textWidth(columnLabels.at(-1) ?? "", size) * 0.5);
  const [width, height] = [left + map.columns * cell + right, top + map.rows * cell + 8];
  const { ink, muted, line, accent } = palette.value;

  const cells = useMemo(() => {
    const drawn = [];
    for (let row = 0; row < map.rows; row++)
      for (let column = 0; column < map.columns; column++) {
        const value = at(map, row, column);
        const seen = value >= props.threshold;
        const colour = sequential(palette.value, seen ? shade(value / props.most, props.log) : 0);
        const [x, y] = [left + column * cell, top + row * cell];
        drawn.push(<rect x={x} y={y} width={cell - 1} height={cell - 1} fill={css(colour)} />);
        if (cell >= SHOW_VALUES && seen && value >= 0.005)
          drawn.push(
            <text x={x + cell / 2} y={y + cell / 2 + 4} font-size="11" text-anchor="middle" fill={inkOn(colour)}>
              {value.toFixed(2).replace(/^0/, "")}
            </text>,
          );
      }
    return <g>{drawn}</g>;
  }, [map, props.threshold, props.log, props.most, palette.value, left, top, cell]);

  const find = (event: PointerEvent | MouseEvent): Focus => {
    const box = svg.current!.getBoundingClientRect();
    const scale = width / box.width;
    const column = Math.floor(((event.clientX - box.left) * scale - left) / cell);
    const row = Math.floor(((event.clientY - box.top) * scale - top) / cell);
    const inside = row >= 0 && row < map.rows && column >= 0 && column < map.columns;
    return inside ? { row, column } : NOWHERE;
  };

  const readout =
    focus.row !== null && focus.column !== null && focus.row < map.rows && focus.column < map.columns
      ? t("map.value", {
          row: isolate(rowLabels[focus.row]),
          column: isolate(columnLabels[focus.column]),
          value: number(at(map, focus.row, focus.column), 4),
        })
      : t("map.hint");

  const table = (): Table => ({
    columns: ["", ...columnLabels],
    rows: rowLabels.map((label, row) => [label, ...columnLabels.map((_, column) => at(map, row, column))]),
  });

  const label = (words: string, edge: "left" | "right", index: number, active: boolean) => ({
    ...anchored(words, edge),
    fill: active ? accent : ink,
    "font-weight": active ? "700" : "400",
    key: index,
  });

  return (
    <figure class="heatmap">
      <figcaption>
        <p class="readout" aria-live="polite">
          {readout}
        </p>
        <button type="button" class="quiet" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {t("map.table")}
        </button>
        <ExportBar name={props.fileName} what={props.title} svg={() => svgText(svg.current!, palette.value.paper)} table={table} />
      </figcaption>
      <div class="picture" role="group" aria-label={props.title} tabIndex={0}>
        <svg
          ref={svg}
          aria-hidden="true"
          viewBox={`0 0 ${width} ${height}`}
          style={{ width: `${width}px` }}
          onPointerMove={(event) => event.pointerType === "mouse" && props.onHover(find(event))}
          onPointerLeave={() => props.onHover(NOWHERE)}
          onClick={(event) => props.onPin(find(event))}
        >
          <text x="4" y="14" font-size="11" fill={muted}>
            {props.rowTitle} ↓ · {props.columnTitle} →
          </text>
          {cells}
          <rect x={left - 0.5} y={top - 0.5} width={map.columns * cell} height={map.rows * cell} fill="none" stroke={line} />
          <g font-size={size} lang={props.columnLang}>
            {columnLabels.map((words, i) => (
              <text
                {...label(words, "left", i, i === focus.column)}
                transform={`translate(${left + i * cell + cell / 2 + size / 3} ${top - 6}) rotate(-60)`}
              >
                {words}
              </text>
            ))}
          </g>
          <g font-size={size} lang={props.rowLang}>
            {rowLabels.map((words, i) => (
              <text {...label(words, "right", i, i === focus.row)} x={left - 6} y={top + i * cell + cell / 2 + size / 3}>
                {words}
              </text>
            ))}
          </g>
          <g fill="none" stroke={accent} stroke-width="2" data-screen-only>
            {focus.row !== null && (
              <rect x={left - 1} y={top + focus.row * cell - 1} width={map.columns * cell + 1} height={cell + 1} />
            )}
            {focus.column !== null && (
              <rect x={left + focus.column * cell - 1} y={top - 1} width={cell + 1} height={map.rows * cell + 1} />
            )}
          </g>
        </svg>
      </div>
      <div class={asTable ? "table-scroll" : "unseen"}>
        <HeatTable {...props} />
      </div>
    </figure>
  );
}

/** The same numbers as a table whose cells the arrow keys walk through. */
function HeatTable({ title, map, rowLabels, columnLabels, rowLang, columnLang, rowTitle, columnTitle, onHover }: Props) {
  return useMemo(
    () => (
      <table role="grid" {...roving(map.columns)} onBlurCapture={() => onHover(NOWHERE)}>
        <caption>
          {title}. {t("map.caption", { rows: rowTitle, columns: columnTitle })}
        </caption>
        <thead>
          <tr>
            <td />
            {columnLabels.map((label, i) => (
              <th key={i} scope="col" lang={columnLang}>
                <bdi>{label}</bdi>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rowLabels.map((label, row) => (
            <tr key={row}>
              <th scope="row" lang={rowLang}>
                <bdi>{label}</bdi>
              </th>
              {columnLabels.map((_, column) => (
                <td
                  key={column}
                  data-cell
                  tabIndex={row + column === 0 ? 0 : -1}
                  onFocus={() => onHover({ row, column })}
                >
                  {number(at(map, row, column), 3)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    ),
    [map, rowLabels.join("\n"), columnLabels.join("\n"), title],
  );
}
