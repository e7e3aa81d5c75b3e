import { useLayoutEffect, useRef } from "preact/hooks";
import { barColour, css } from "../colour";
import { number, t } from "../i18n";
import { palette } from "../theme";
import { useCursor } from "./cursor";

const HEIGHT = 34;

/** A vector: a bar a number, up when positive and down when negative; the value is said at the cursor. */
export function Strip(props: { name: string; symbol: string; values: number[]; names?: string[] }) {
  const { values, names } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { cursor, handlers } = useCursor(1, values.length);
  const limit = Math.max(...values.map(Math.abs));
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  useLayoutEffect(() => {
    const { current } = canvas;
    const bar = Math.max(1, Math.round(1024 / values.length));
    current!.width = values.length * bar;
    current!.height = HEIGHT * 2;
    const context = current!.getContext("2d")!;
    values.forEach((value, i) => {
      const tall = limit ? (Math.abs(value) / limit) * HEIGHT : 0;
      context.fillStyle = css(barColour(palette.value, value, limit));
      context.fillRect(i * bar, value >= 0 ? HEIGHT - tall : HEIGHT, Math.max(1, bar - (bar > 3 ? 1 : 0)), tall);
    });
    context.fillStyle = palette.value.line;
    context.fillRect(0, HEIGHT - 0.5, current!.width, 1);
  }, [values, limit, palette.value]);
  return (
    <div class="strip">
      <p class="strip-name">
        <b>{props.symbol}</b> {props.name}
      </p>
      <div
        class="canvas-frame"
        role="img"
        aria-label={`${props.symbol} ${props.name}, ${t("strip.of", { count: values.length })}. ${t("cursor.hint")}`}
        {...handlers}
      >
        <canvas ref={canvas} />
        {cursor && (
          <div
            class="cell-mark"
            style={{ left: `${(100 * cursor.column) / values.length}%`, width: `${100 / values.length}%`, top: "0", height: "100%" }}
          />
        )}
      </div>
      <p class="strip-value" aria-live="polite">
        {cursor
          ? `${names?.[cursor.column] ?? `[${cursor.column}]`} ${number(values[cursor.column], 4)}`
          : t("strip.summary", { count: values.length, limit: number(limit, 2), length: number(length, 2) })}
      </p>
    </div>
  );
}
