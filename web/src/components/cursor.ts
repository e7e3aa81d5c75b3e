// A cell cursor for pictures: the pointer or the arrow keys move it, a line beside the picture says the value.
import { useState } from "preact/hooks";

export interface Cursor {
  row: number;
  column: number;
}

/** `area` says which part of the element holds the cells, in shares of its width and height. */
export function useCursor(rows: number, columns: number, area = { left: 0, top: 0, width: 1, height: 1 }) {
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const inside = (row: number, column: number) => row >= 0 && row < rows && column >= 0 && column < columns;
  const current = cursor && inside(cursor.row, cursor.column) ? cursor : null;
  return {
    cursor: current,
    handlers: {
      tabIndex: 0,
      onPointerMove(event: PointerEvent) {
        const box = (event.currentTarget as Element).getBoundingClientRect();
        const column = Math.floor((((event.clientX - box.left) / box.width - area.left) / area.width) * columns);
        const row = Math.floor((((event.clientY - box.top) / box.height - area.top) / area.height) * rows);
        if (!inside(row, column)) setCursor(null);
        else if (row !== current?.row || column !== current.column) setCursor({ row, column });
      },
      onPointerLeave: () => setCursor(null),
      onKeyDown(event: KeyboardEvent) {
        const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = current ? { row: current.row + step[0], column: current.column + step[1] } : { row: 0, column: 0 };
        if (inside(next.row, next.column)) setCursor(next);
      },
    },
  };
}
