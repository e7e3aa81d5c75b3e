// Maps onto canvases: a pixel a cell, enlarged by the style sheet.
import type { Rgb } from "../colour";

/** Colours as the 32-bit pixels of a canvas, for values 0 to 255. */
export function pixels(colours: Rgb[]): Uint32Array {
  return Uint32Array.from(colours, ([r, g, b]) => new Uint32Array(Uint8Array.of(r, g, b, 255).buffer)[0]);
}

/** Paints `values` (0 to 255 each) of a map through the table `colours`. */
export function paint(canvas: HTMLCanvasElement, values: Uint8Array, columns: number, colours: Uint32Array): void {
  const rows = values.length / columns;
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(columns, rows);
  const target = new Uint32Array(image.data.buffer);
  for (let i = 0; i < values.length; i++) target[i] = colours[values[i]];
  context.putImageData(image, 0, 0);
}
