import { useRef } from "preact/hooks";
import type { Kind } from "../api";
import { svgText } from "../export";
import { t, type Key } from "../i18n";
import { palette } from "../theme";
import { ExportBar } from "./ExportBar";

export type Part = "embedding" | "qkv" | "scores" | "sum" | "addnorm" | "feedforward" | "next";

interface Box {
  part: Part;
  kind: Kind;
  label: Key;
  x: number;
  y: number;
  width: number;
  height?: number;
}

const [LEFT, RIGHT, WIDTH] = [28, 244, 168];
const inner = (kind: Kind, x: number, y: number): Box[] => [
  { part: "sum", kind, label: "box.sum", x, y, width: WIDTH },
  { part: "scores", kind, label: kind === "decoder" ? "box.maskedScores" : "box.scores", x, y: y + 30, width: WIDTH },
  { part: "qkv", kind, label: kind === "cross" ? "box.crossQkv" : "box.qkv", x, y: y + 60, width: WIDTH },
];

/** The paper's Figure 1 from bottom to top: encoder left, decoder right. */
const BOXES: Box[] = [
  { part: "addnorm", kind: "encoder", label: "box.addnorm", x: LEFT, y: 360, width: WIDTH },
  { part: "feedforward", kind: "encoder", label: "box.feedforward", x: LEFT, y: 322, width: WIDTH },
  ...inner("encoder", LEFT, 398),
  { part: "embedding", kind: "encoder", label: "box.sourceEmbedding", x: LEFT, y: 524, width: WIDTH, height: 36 },
  { part: "next", kind: "decoder", label: "box.next", x: RIGHT, y: 44, width: WIDTH, height: 36 },
  { part: "feedforward", kind: "cross", label: "box.feedforward", x: RIGHT, y: 128, width: WIDTH },
  { part: "addnorm", kind: "cross", label: "box.addnorm", x: RIGHT, y: 168, width: WIDTH },
  ...inner("cross", RIGHT, 208),
  { part: "addnorm", kind: "decoder", label: "box.addnorm", x: RIGHT, y: 358, width: WIDTH },
  ...inner("decoder", RIGHT, 398),
  { part: "embedding", kind: "decoder", label: "box.targetEmbedding", x: RIGHT, y: 524, width: WIDTH, height: 36 },
];

/** Figure 1 as a map whose boxes are buttons. */
export function Figure1(props: {
  kind: Kind;
  part: Part;
  layers: [encoder: number, decoder: number];
  preNorm: boolean;
  onOpen: (part: Part, kind: Kind) => void;
}) {
  const svg = useRef<SVGSVGElement>(null);
  const { ink, muted, line, accent, paper } = palette.value;
  const arrow = (d: string) => <path d={d} fill="none" stroke={muted} stroke-width="1.4" marker-end="url(#arrow)" />;
  const group = (kind: Kind, x: number, y: number, height: number) => (
    <rect x={x - 10} y={y - 24} width={WIDTH + 20} height={height} rx="8" fill="none" stroke={props.kind === kind ? accent : line} />
  );
  const stack = (x: number, y: number, height: number) => (
    <rect x={x - 18} y={y} width={WIDTH + 36} height={height} rx="14" fill="none" stroke={muted} stroke-dasharray="2 3" />
  );
  return (
    <figure class="figure1">
      <figcaption>
        <span class="figure-title">{t("model.figure")}</span>
        <ExportBar name="figure-1" what={t("model.figure")} svg={() => svgText(svg.current!, paper)} />
      </figcaption>
      <svg ref={svg} viewBox="0 0 440 600" role="group" aria-label={t("model.figure")} font-size="12">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0L8 4L0 8z" fill={muted} />
          </marker>
        </defs>
        {stack(LEFT, 308, 192)}
        {stack(RIGHT, 114, 386)}
        <text x={LEFT + WIDTH / 2} y="300" text-anchor="middle" fill={muted}>
          {t("model.encoderTimes", { count: props.layers[0] })}
        </text>
        <text x={RIGHT + WIDTH / 2} y="106" text-anchor="middle" fill={muted}>
          {t("model.decoderTimes", { count: props.layers[1] })}
        </text>
        {group("encoder", LEFT, 412, 114)}
        {group("cross", RIGHT, 222, 114)}
        {group("decoder", RIGHT, 412, 114)}
        {arrow(`M${LEFT + WIDTH / 2} 586V564`)}
        {arrow(`M${LEFT + WIDTH / 2} 524V504`)}
        {arrow(`M${RIGHT + WIDTH / 2} 586V564`)}
        {arrow(`M${RIGHT + WIDTH / 2} 524V504`)}
        {arrow(`M${RIGHT + WIDTH / 2} 358V316`)}
        {arrow(`M${RIGHT + WIDTH / 2} 96V84`)}
        {arrow(`M${RIGHT + WIDTH / 2} 44V26`)}
        {arrow(`M${LEFT + WIDTH / 2} 284V250H${RIGHT - 12}`)}
        <text x={LEFT + WIDTH / 2} y="598" text-anchor="middle" fill={muted}>
          {t("model.source")}
        </text>
        <text x={RIGHT + WIDTH / 2} y="598" text-anchor="middle" fill={muted}>
          {t("model.shifted")}
        </text>
        <text x={RIGHT + WIDTH / 2} y="18" text-anchor="middle" fill={muted}>
          {t("model.output")}
        </text>
        {BOXES.map((box) => {
          const on = box.part === props.part && box.kind === props.kind;
          const height = box.height ?? 24;
          const open = () => props.onOpen(box.part, box.kind);
          return (
            <g
              key={`${box.kind}${box.part}`}
              role="button"
              tabIndex={0}
              class="node"
              aria-label={`${t(`kind.${box.kind}`)}: ${t(box.label)}`}
              aria-pressed={on}
              transform={`translate(${box.x} ${box.y})`}
              onClick={open}
              onKeyDown={(event) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                open();
              }}
            >
              <rect class="box" width={box.width} height={height} rx="5" fill={on ? accent : paper} stroke={on ? accent : muted} stroke-width={on ? 2 : 1} />
              <text x={box.width / 2} y={height / 2 + 4} text-anchor="middle" fill={on ? paper : ink} font-weight={on ? "700" : "400"}>
                {t(box.label)}
              </text>
            </g>
          );
        })}
      </svg>
      <p class="hint">{t(props.preNorm ? "model.preNorm" : "model.postNorm")}</p>
    </figure>
  );
}
