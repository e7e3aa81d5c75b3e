// How wide words will be when drawn.
import { FONT } from "../export";

const context = globalThis.document?.createElement("canvas").getContext("2d") ?? null;

/** Width in pixels of `text` at `size` pixels. */
export function textWidth(text: string, size: number): number {
  if (!context) return text.length * size * 0.6;
  context.font = `${size}px ${FONT}`;
  return context.measureText(text).width;
}
