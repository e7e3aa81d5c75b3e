// Attention maps as matrices: a row is a query, a column is a key.
import type { Maps, Range } from "./api";

export interface Matrix {
  rows: number;
  columns: number;
  data: Float32Array;
}

export function matrix(rows: number, columns: number, data: Float32Array = new Float32Array(rows * columns)): Matrix {
  return { rows, columns, data };
}

export function at(m: Matrix, row: number, column: number): number {
  return m.data[row * m.columns + column];
}

export function rowOf(m: Matrix, row: number): Float32Array {
  return m.data.subarray(row * m.columns, (row + 1) * m.columns);
}

export function columnOf(m: Matrix, column: number): Float32Array {
  return Float32Array.from({ length: m.rows }, (_, row) => at(m, row, column));
}

export function largest(m: Matrix): number {
  return m.data.reduce((most, value) => Math.max(most, value), 0);
}

/** One head's thumbnail; `bytes` are the decoded `maps.weights`. */
export function thumbnail(maps: Maps, bytes: Uint8Array, layer: number, head: number): Uint8Array {
  const size = maps.rows * maps.columns;
  const first = (layer * maps.heads + head) * size;
  return bytes.subarray(first, first + size);
}

export function fromBytes(maps: Maps, bytes: Uint8Array, layer: number, head: number): Matrix {
  return matrix(maps.rows, maps.columns, Float32Array.from(thumbnail(maps, bytes, layer, head), (byte) => byte / 255));
}

export function meanOf(matrices: Matrix[]): Matrix {
  const result = matrix(matrices[0].rows, matrices[0].columns);
  for (const m of matrices) m.data.forEach((value, i) => (result.data[i] += value / matrices.length));
  return result;
}

/** The largest of the heads in every cell; its rows need not sum to 1. */
export function maxOf(matrices: Matrix[]): Matrix {
  const result = matrix(matrices[0].rows, matrices[0].columns);
  for (const m of matrices) m.data.forEach((value, i) => (result.data[i] = Math.max(result.data[i], value)));
  return result;
}

/** Pieces to words (Clark et al. 2019): sum over the attended word's pieces, mean over the attending word's. */
export function mergeWords(m: Matrix, rowWords: Range[], columnWords: Range[]): Matrix {
  const result = matrix(rowWords.length, columnWords.length);
  rowWords.forEach(([top, bottom], row) =>
    columnWords.forEach(([left, right], column) => {
      let sum = 0;
      for (let i = top; i < bottom; i++) for (let j = left; j < right; j++) sum += at(m, i, j);
      result.data[row * result.columns + column] = sum / (bottom - top);
    }),
  );
  return result;
}

/** Only the columns `kept`; with `again`, every row is scaled to sum to 1 again (a row of zeros stays so). */
export function keepColumns(m: Matrix, kept: number[], again: boolean): Matrix {
  const result = matrix(m.rows, kept.length);
  for (let row = 0; row < m.rows; row++) {
    const values = kept.map((column) => at(m, row, column));
    const total = values.reduce((sum, value) => sum + value, 0);
    values.forEach((value, i) => (result.data[row * kept.length + i] = again && total > 0 ? value / total : value));
  }
  return result;
}
