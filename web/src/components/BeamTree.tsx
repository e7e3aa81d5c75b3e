import { useEffect, useRef, useState } from "preact/hooks";
import type { Beam, Candidate } from "../api";
import { anchored, isolate } from "../bidi";
import { isBest, layout, pathTo, type Placed } from "../beam";
import { svgText } from "../export";
import { number, t } from "../i18n";
import { palette } from "../theme";
import { ExportBar } from "./ExportBar";
import { Check } from "./Field";
import { Icon } from "./Icon";
import { textWidth } from "./text";

const [ROW, GAP, BOX, PAD] = [34, 42, 24, 26];
const score = (candidate: Candidate) => candidate.score.toFixed(2).replace("-", "−");
const keyOf = ({ step, index }: { step: number; index: number }) => `${step}.${index}`;

/** The search as a tree (give it the trace as its key): columns are steps, the best candidate on top. Kept: solid box. Pruned: dashed. Finished: double. */
export function BeamTree(props: { beam: Beam; lang?: string; onForce: (step: number, index: number) => void }) {
  const { beam } = props;
  const last = beam.steps.length - 1;
  const [shown, setShown] = useState(last);
  const [playing, setPlaying] = useState(false);
  const [pruned, setPruned] = useState(true);
  const [active, setActive] = useState<Placed | null>(null);
  const svg = useRef<SVGSVGElement>(null);

  useEffect(() => {
    if (!playing) return;
    if (shown >= last) return setPlaying(false);
    const timer = setTimeout(() => setShown(shown + 1), 700);
    return () => clearTimeout(timer);
  }, [playing, shown]);
  useEffect(() => {
    if (shown < last) svg.current?.querySelector(`[data-step="${shown}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [shown]);

  const widthOf = (label: string) => Math.max(64, textWidth(label, 13) * 1.08 + 54);
  const nodes = layout(beam, widthOf, ROW, GAP);
  const visible = nodes.filter(
    ({ step, index, candidate }) => step <= shown && (pruned || candidate.state !== "pruned" || isBest(beam, step, index)),
  );
  const byKey = new Map(nodes.map((node) => [keyOf(node), node]));
  const width = Math.max(...nodes.map((node) => node.x + node.width)) + 2 * 8;
  const height = Math.max(...nodes.map((node) => node.y)) + BOX + PAD + 12;
  const { ink, muted, line, accent, paper } = palette.value;

  const reduced = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const play = () => {
    if (playing) return setPlaying(false);
    if (reduced()) return setShown(shown >= last ? 0 : shown + 1); // no motion of its own: a step a press
    if (shown >= last) setShown(0);
    setPlaying(true);
  };

  const walk = (event: KeyboardEvent, from: Placed) => {
    const column = (step: number) => visible.filter((node) => node.step === step);
    const here = column(from.step);
    const place = here.indexOf(from);
    const children = column(from.step + 1).filter((node) => node.candidate.parent === from.index);
    const next = {
      ArrowUp: here[place - 1],
      ArrowDown: here[place + 1],
      ArrowLeft: visible.find((node) => node.step === from.step - 1 && node.index === from.candidate.parent),
      ArrowRight: children[0] ?? column(from.step + 1)[0],
      Enter: undefined,
      " ": undefined,
    }[event.key];
    if (event.key.startsWith("Arrow")) event.preventDefault();
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      props.onForce(from.step, from.index);
    }
    if (next) svg.current!.querySelector<SVGGElement>(`[data-node="${keyOf(next)}"]`)?.focus();
  };

  const stop = active && visible.includes(byKey.get(keyOf(active))!) ? keyOf(active) : "0.0";
  const describe = ({ step, index, candidate }: Placed) =>
    t("beam.node", {
      path: isolate(pathTo(beam, step, index).map((token) => token.text).join(" ")),
      state: t(`beam.${candidate.state}`),
      logProb: number(candidate.log_prob),
      score: number(candidate.score),
    });

  return (
    <figure class="beam">
      <div class="row">
        <div class="buttons" role="group" aria-label={t("beam.steps")}>
          <button type="button" onClick={() => setShown(0)} aria-label={t("beam.first")} title={t("beam.first")}>
            <Icon name="first" />
          </button>
          <button type="button" disabled={shown === 0} onClick={() => setShown(shown - 1)} aria-label={t("beam.back")} title={t("beam.back")}>
            <Icon name="back" />
          </button>
          <button type="button" onClick={play} aria-pressed={playing}>
            {playing ? t("beam.pause") : t("beam.play")}
          </button>
          <button type="button" disabled={shown === last} onClick={() => setShown(shown + 1)} aria-label={t("beam.next")} title={t("beam.next")}>
            <Icon name="next" />
          </button>
        </div>
        <label class="field slider">
          <span>
            {t("beam.step")} <output>{`${shown + 1} / ${last + 1}`}</output>
          </span>
          <input type="range" min={0} max={last} value={shown} onInput={(event) => setShown(event.currentTarget.valueAsNumber)} />
        </label>
        <Check label={t("beam.showPruned")} checked={pruned} onChange={setPruned} />
        <ExportBar
          name="beam"
          what={t("beam.title")}
          svg={() => svgText(svg.current!, paper)}
          table={() => ({
            columns: ["step", "rank", "parent", "token", "log_prob", "total", "score", "state", "chosen"],
            rows: nodes.map(({ step, index, candidate: c }) => [
              step, index, c.parent, c.token.text, c.log_prob, c.total, c.score, c.state, isBest(beam, step, index),
            ]),
          })}
        />
      </div>
      <p class="legend">
        <span class="key kept">{t("beam.kept")}</span> <span class="key pruned">{t("beam.pruned")}</span>{" "}
        <span class="key finished">{t("beam.finished")}</span> <span class="key chosen">{t("beam.chosen")}</span>
      </p>
      <div class="picture" role="region" aria-label={t("beam.tree")} tabIndex={0}>
        <svg ref={svg} viewBox={`-8 ${-PAD} ${width} ${height}`} style={{ width: `${width}px` }} role="group" aria-label={t("beam.title")} lang={props.lang}>
          {beam.steps.map((_, step) => {
            const node = byKey.get(`${step}.0`)!;
            return (
              <text key={`s${step}`} data-step={step} x={node.x} y={-10} font-size="11" fill={muted} opacity={step <= shown ? 1 : 0.4}>
                {step + 1}
              </text>
            );
          })}
          {visible.map((node) => {
            const parent = byKey.get(`${node.step - 1}.${node.candidate.parent}`);
            if (!parent) return null;
            const chosen = isBest(beam, node.step, node.index);
            const [x1, y1, x2, y2] = [parent.x + parent.width, parent.y + BOX / 2, node.x, node.y + BOX / 2];
            return (
              <path
                key={`e${keyOf(node)}`}
                d={`M${x1} ${y1}C${x1 + GAP / 2} ${y1} ${x2 - GAP / 2} ${y2} ${x2} ${y2}`}
                fill="none"
                stroke={chosen ? accent : muted}
                stroke-width={chosen ? 3 : 1}
                stroke-dasharray={node.candidate.state === "pruned" ? "3 3" : undefined}
                opacity={chosen || node.candidate.state !== "pruned" ? 1 : 0.6}
              />
            );
          })}
          {visible.map((node) => {
            const { candidate, x, y } = node;
            const chosen = isBest(beam, node.step, node.index);
            const faint = candidate.state === "pruned" && !chosen;
            return (
              <g
                key={keyOf(node)}
                data-node={keyOf(node)}
                role="button"
                tabIndex={keyOf(node) === stop ? 0 : -1}
                aria-label={`${candidate.token.text} ${score(candidate)} – ${describe(node)}`}
                class="node"
                transform={`translate(${x} ${y})`}
                onFocus={() => setActive(node)}
                onPointerEnter={() => setActive(node)}
                onKeyDown={(event) => walk(event, node)}
                onClick={() => props.onForce(node.step, node.index)}
              >
                <rect
                  class="box"
                  width={node.width}
                  height={BOX}
                  rx={candidate.state === "finished" ? BOX / 2 : 4}
                  fill={paper}
                  stroke={chosen ? accent : faint ? line : muted}
                  stroke-width={chosen ? 2.5 : 1}
                  stroke-dasharray={candidate.state === "pruned" ? "3 3" : undefined}
                />
                {candidate.state === "finished" && (
                  <rect x="3" y="3" width={node.width - 6} height={BOX - 6} rx={BOX / 2 - 3} fill="none" stroke={chosen ? accent : muted} />
                )}
                <text x="9" y="16.5" {...anchored(candidate.token.text, "left")} font-size="13" font-weight={chosen ? "700" : "400"} fill={faint ? muted : ink}>
                  {candidate.token.text}
                </text>
                {" "}
                <text x={node.width - 8} y="16" font-size="10" text-anchor="end" fill={muted}>
                  {score(candidate)}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      <p class="readout" aria-live="polite">
        {active ? describe(active) : t("beam.hint")}
      </p>
    </figure>
  );
}
