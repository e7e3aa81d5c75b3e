import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { isolate } from "../bidi";
import { css, diverging } from "../colour";
import { escapeXml, sheet } from "../export";
import { number, t } from "../i18n";
import { at, type Matrix } from "../matrix";
import { palette } from "../theme";
import { useCursor } from "./cursor";
import { ExportBar } from "./ExportBar";
import { paint, pixels } from "./paint";
import { textWidth } from "./text";

/** A matrix of signed numbers as a canvas; colour is blue above zero and orange below, the number is said at the cursor. */
export function MapCanvas(props: {
  title: string;
  fileName: string;
  map: Matrix;
  rowName: (row: number) => string;
  columnName: (column: number) => string;
  rowTitle: string;
  columnTitle: string;
  cell?: { width: number; height: number };
  marked?: number | null;
}) {
  const { map } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const limit = useMemo(() => map.data.reduce((most, value) => Math.max(most, Math.abs(value)), 0), [map]);
  const { cursor, handlers } = useCursor(map.rows, map.columns);
  useLayoutEffect(() => {
    const values = Uint8Array.from(map.data, (value) => Math.round(((limit ? value / limit : 0) + 1) * 127.5));
    paint(canvas.current!, values, map.columns, pixels(palette.value.diverging));
  }, [map, limit, palette.value]);
  const size = props.cell ?? { width: 4, height: 4 };
  const svg = () => {
    const [width, height] = [map.columns * size.width, map.rows * size.height];
    let cells = "";
    for (let row = 0; row < map.rows; row++)
      for (let column = 0; column < map.columns; column++)
        cells +=
          `<rect x="${column * size.width}" y="${20 + row * size.height}" width="${size.width}" height="${size.height}" ` +
          `fill="${css(diverging(palette.value, at(map, row, column), limit))}"/>`;
    const title = `<text x="0" y="14" font-size="11" fill="${palette.value.ink}">${escapeXml(props.title)}</text>`;
    return sheet(Math.max(width, textWidth(props.title, 11)), height + 20, palette.value.paper, title + cells);
  };
  return (
    <figure class="map-canvas">
      <figcaption>
        <span class="figure-title">{props.title}</span>
        <ExportBar
          name={props.fileName}
          what={props.title}
          svg={svg}
          table={() => ({
            columns: ["", ...Array.from({ length: map.columns }, (_, i) => props.columnName(i))],
            rows: Array.from({ length: map.rows }, (_, row) => [
              props.rowName(row),
              ...map.data.subarray(row * map.columns, (row + 1) * map.columns),
            ]),
          })}
        />
      </figcaption>
      <p class="axis-note">
        {props.rowTitle} ↓ · {props.columnTitle} → · {t("scale.signed", { limit: number(limit) })}
      </p>
      <div class="canvas-frame" role="img" aria-label={`${props.title}. ${t("cursor.hint")}`} {...handlers}>
        <canvas ref={canvas} style={{ width: `${map.columns * size.width}px`, height: `${map.rows * size.height}px` }} />
        {props.marked !== null && props.marked !== undefined && (
          <div class="row-mark" style={{ top: `${(100 * props.marked) / map.rows}%`, height: `${100 / map.rows}%` }} />
        )}
        {cursor && (
          <div
            class="cell-mark"
            style={{
              left: `${(100 * cursor.column) / map.columns}%`,
              top: `${(100 * cursor.row) / map.rows}%`,
              width: `${100 / map.columns}%`,
              height: `${100 / map.rows}%`,
            }}
          />
        )}
      </div>
      <p class="readout" aria-live="polite">
        {cursor
          ? `${isolate(props.rowName(cursor.row))} · ${props.columnName(cursor.column)}: ${number(at(map, cursor.row, cursor.column), 4)}`
          : t("cursor.hint")}
      </p>
    </figure>
  );
}
