// Small pictures as 8-bit bitmaps (BMP): a table of colours, then a byte a cell.
//
// A canvas would do, but browsers make a layer of every canvas, and 144 layers cost five times as much as 144 images.
import type { Rgb } from "./colour";

const HEADER = 54;

/** Up to 256 colours as a bitmap holds them: blue, green, red, 0. */
export function colourTable(colours: Rgb[]): Uint8Array {
  return Uint8Array.from(colours.flatMap(([r, g, b]) => [b, g, r, 0]));
}

/** `values` row by row, `columns` to a row, as a data address. */
export function bitmap(values: Uint8Array, columns: number, table: Uint8Array): string {
  const rows = values.length / columns;
  const stride = (columns + 3) & ~3; // rows are padded to four bytes
  const start = HEADER + table.length;
  const bytes = new Uint8Array(start + stride * rows);
  const view = new DataView(bytes.buffer);
  bytes.set([0x42, 0x4d]); // "BM"
  view.setUint32(2, bytes.length, true);
  view.setUint32(10, start, true);
  view.setUint32(14, 40, true); // size of what follows
  view.setInt32(18, columns, true);
  view.setInt32(22, -rows, true); // from top to bottom
  view.setUint16(26, 1, true);
  view.setUint16(28, 8, true); // bits a cell
  view.setUint32(46, table.length / 4, true);
  bytes.set(table, HEADER);
  for (let row = 0; row < rows; row++) bytes.set(values.subarray(row * columns, (row + 1) * columns), start + row * stride);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192)
    binary += String.fromCharCode.apply(null, bytes.subarray(i, i + 8192) as unknown as number[]); // a spread is slow
  return `data:image/bmp;base64,${btoa(binary)}`;
}
