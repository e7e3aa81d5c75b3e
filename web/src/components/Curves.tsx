import { useRef } from "preact/hooks";
import { svgText } from "../export";
import { number, t } from "../i18n";
import { palette } from "../theme";
import { useCursor } from "./cursor";
import { ExportBar } from "./ExportBar";

export interface Series {
  name: string;
  points: [x: number, y: number][];
}

const DASHES = ["", "7 3", "2 3", "10 3 2 3", "4 4", "1 2"];
const [HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [260, 56, 14, 14, 34];

/** Round numbers that cut a span into about `count` parts. */
export function ticks(low: number, high: number, count = 5): number[] {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough)!;
  const first = Math.ceil(low / step - 1e-9) * step;
  return Array.from({ length: Math.floor((high - first) / step + 1e-9) + 1 }, (_, i) => Number((first + i * step).toPrecision(12)));
}

/** Curves over one x axis; told apart by dashes as well as by colour. */
export function Curves(props: { title: string; fileName: string; series: Series[]; xName: string; marked?: number }) {
  const svg = useRef<SVGSVGElement>(null);
  const width = innerWidth < 640 ? 380 : 720; // so that words stay readable on a telephone
  const series = props.series.filter(({ points }) => points.length > 0);
  const all = series.flatMap(({ points }) => points);
  const xs = [...new Set(all.map(([x]) => x))].sort((a, b) => a - b);
  const [lowX, highX] = [xs[0] ?? 0, xs.at(-1) ?? 1];
  const ys = all.map(([, y]) => y);
  const [least, greatest] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
  const margin = (greatest - least) * 0.04;
  const [lowY, highY] = [least - margin, greatest + margin];
  const across = (x: number) => LEFT + ((x - lowX) / (highX - lowX || 1)) * (width - LEFT - RIGHT);
  const up = (y: number) => HEIGHT - BOTTOM - ((y - lowY) / (highY - lowY || 1)) * (HEIGHT - TOP - BOTTOM);
  const { cursor, handlers } = useCursor(1, Math.max(1, xs.length), {
    left: LEFT / width,
    top: 0,
    width: (width - LEFT - RIGHT) / width,
    height: 1,
  });
  const x = cursor ? xs[cursor.column] : null;
  const valueAt = ({ points }: Series, place: number) => points.find(([px]) => px === place)?.[1];
  const { ink, muted, line, accent, series: colours } = palette.value;
  const said =
    x === null
      ? series.map((s) => t("curves.last", { name: s.name, value: number(s.points.at(-1)![1]) })).join(" · ")
      : `${props.xName} ${x}: ` +
        series.flatMap((s) => (valueAt(s, x) === undefined ? [] : [`${s.name} ${number(valueAt(s, x)!, 4)}`])).join(" · ");
  return (
    <figure class="curves">
      <figcaption>
        <span class="figure-title">{props.title}</span>
        <ExportBar
          name={props.fileName}
          what={props.title}
          svg={() => svgText(svg.current!, palette.value.paper)}
          table={() => ({
            columns: [props.xName, ...series.map(({ name }) => name)],
            rows: xs.map((place) => [place, ...series.map((s) => valueAt(s, place) ?? null)]),
          })}
        />
      </figcaption>
      <div class="canvas-frame" role="img" aria-label={`${props.title}. ${said}`} {...handlers}>
        <svg ref={svg} viewBox={`0 0 ${width} ${HEIGHT + 18}`} font-size="11" aria-hidden="true">
          {ticks(lowY, highY, 4).map((y) => (
            <g key={`y${y}`}>
              <line x1={LEFT} x2={width - RIGHT} y1={up(y)} y2={up(y)} stroke={line} />
              <text x={LEFT - 6} y={up(y) + 4} text-anchor="end" fill={muted}>
                {y}
              </text>
            </g>
          ))}
          {ticks(lowX, highX, width < 640 ? 4 : 8).map((place) => (
            <text key={`x${place}`} x={across(place)} y={HEIGHT - BOTTOM + 16} text-anchor="middle" fill={muted}>
              {place}
            </text>
          ))}
          <text x={width - RIGHT} y={HEIGHT - 4} text-anchor="end" fill={muted}>
            {props.xName}
          </text>
          {props.marked !== undefined && (
            <line x1={across(props.marked)} x2={across(props.marked)} y1={TOP} y2={HEIGHT - BOTTOM} stroke={accent} stroke-dasharray="3 3" />
          )}
          {series.map(({ name, points }, i) => (
            <polyline
              key={name}
              fill="none"
              stroke={colours[i % colours.length]}
              stroke-width={points.length > 400 ? 0.8 : 1.8}
              stroke-linejoin="round"
              stroke-dasharray={DASHES[i % DASHES.length]}
              points={points.map(([px, py]) => `${across(px).toFixed(1)},${up(py).toFixed(1)}`).join(" ")}
            />
          ))}
          {series.map(
            ({ name, points: [first, ...more] }, i) =>
              more.length === 0 && <circle key={name} cx={across(first[0])} cy={up(first[1])} r="3" fill={colours[i % colours.length]} />,
          )}
          {series.map(({ name }, i) => (
            <g key={name} transform={`translate(${LEFT + (i * (width - LEFT)) / Math.max(4, series.length)} ${HEIGHT + 8})`}>
              <line x2="26" y1="-4" y2="-4" stroke={colours[i % colours.length]} stroke-width="2" stroke-dasharray={DASHES[i % DASHES.length]} />
              <text x="32" fill={ink}>
                {name}
              </text>
            </g>
          ))}
          {x !== null && (
            <line data-screen-only x1={across(x)} x2={across(x)} y1={TOP} y2={HEIGHT - BOTTOM} stroke={ink} stroke-width="1" />
          )}
        </svg>
      </div>
      <p class="readout" aria-live="polite">
        {said}
      </p>
    </figure>
  );
}
