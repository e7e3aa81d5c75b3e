// The tree of a beam search: who came from whom, and where to draw it.
import type { Beam, Candidate, Token } from "./api";

/** The tokens from the first step down to candidate `index` of `step`. */
export function pathTo(beam: Beam, step: number, index: number): Token[] {
  const path: Token[] = [];
  for (let t = step, i = index; t >= 0 && i >= 0; t--) {
    const candidate: Candidate = beam.steps[t][i];
    path.unshift(candidate.token);
    i = candidate.parent;
  }
  return path;
}

/** Ids that a forced beginning needs: the path's, without an end mark. */
export function prefixIds(beam: Beam, step: number, index: number): number[] {
  const path = pathTo(beam, step, index);
  const ended = beam.steps[step][index].state === "finished";
  return (ended ? path.slice(0, -1) : path).map((token) => token.id);
}

export function isBest(beam: Beam, step: number, index: number): boolean {
  return beam.best[step] === index;
}

export interface Placed {
  step: number;
  index: number;
  candidate: Candidate;
  x: number;
  y: number;
  width: number;
}

/** Columns are steps, rows are ranks; a column is as wide as its widest label. */
export function layout(beam: Beam, widthOf: (label: string) => number, rowHeight: number, gap: number): Placed[] {
  let x = 0;
  return beam.steps.flatMap((candidates, step) => {
    const width = Math.max(...candidates.map((candidate) => widthOf(candidate.token.text)));
    const placed = candidates.map((candidate, index) => ({ step, index, candidate, x, y: index * rowHeight, width }));
    x += width + gap;
    return placed;
  });
}
