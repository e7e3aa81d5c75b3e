// One tab stop for a grid of things; the arrow keys go on from there. Things carry `data-cell`, in reading order.

const STEPS: Record<string, (at: number, columns: number, count: number) => number> = {
  ArrowRight: (at) => at + 1,
  ArrowLeft: (at) => at - 1,
  ArrowDown: (at, columns) => at + columns,
  ArrowUp: (at, columns) => at - columns,
  Home: (at, columns) => at - (at % columns),
  End: (at, columns, count) => Math.min(count - 1, at - (at % columns) + columns - 1),
};

function makeStop(cells: HTMLElement[], stop: HTMLElement): void {
  for (const cell of cells) if (cell.tabIndex === 0 && cell !== stop) cell.tabIndex = -1;
  stop.tabIndex = 0;
}

/** Handlers for the element round the cells. Give the first cell `tabIndex={0}` and the others `-1`. */
export function roving(columns: number) {
  const cellsOf = (event: Event) => [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("[data-cell]")];
  return {
    onKeyDown(event: KeyboardEvent) {
      const step = STEPS[event.key];
      const from = (event.target as Element).closest?.<HTMLElement>("[data-cell]");
      if (!step || !from || event.ctrlKey || event.metaKey || event.altKey) return;
      const cells = cellsOf(event);
      const next = cells[step(cells.indexOf(from), columns, cells.length)];
      event.preventDefault();
      if (!next) return;
      makeStop(cells, next);
      next.focus({ preventScroll: next.closest(".unseen") !== null });
    },
    onFocusIn(event: FocusEvent) {
      const cell = (event.target as Element).closest?.<HTMLElement>("[data-cell]");
      if (cell) makeStop(cellsOf(event), cell);
    },
  };
}
