// The table of positions, looked at as geometry.
import { at, matrix, rowOf, type Matrix } from "./matrix";

/** Every row's dot product with every other: G = P Pᵀ. */
export function gram(table: Matrix): Matrix {
  const result = matrix(table.rows, table.rows);
  for (let p = 0; p < table.rows; p++)
    for (let q = 0; q <= p; q++) {
      let sum = 0;
      for (let d = 0; d < table.columns; d++) sum += at(table, p, d) * at(table, q, d);
      result.data[p * table.rows + q] = result.data[q * table.rows + p] = sum;
    }
  return result;
}

/** Length of the difference between position `p` and every other. */
export function distances(table: Matrix, p: number): number[] {
  const here = rowOf(table, p);
  return Array.from({ length: table.rows }, (_, q) =>
    Math.sqrt(rowOf(table, q).reduce((sum, value, d) => sum + (value - here[d]) ** 2, 0)),
  );
}

/** ω_i = 10000^(−2i/d): the angle that pair i of dimensions turns by from one position to the next. */
export function frequency(pair: number, d: number): number {
  return 10000 ** ((-2 * pair) / d);
}
