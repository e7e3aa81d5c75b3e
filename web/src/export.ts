// Pictures and tables to files. Every picture is an SVG first; the PNG is drawn from it.
import { anchored } from "./bidi";
import { barColour, css, inkOn, sequential, shade, type Palette, type Rgb } from "./colour";
import { at, type Matrix } from "./matrix";

export const FONT =
  "system-ui, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', 'WenQuanYi Micro Hei', sans-serif";

export type Cell = string | number | boolean | null;
export interface Table {
  columns: string[];
  rows: Cell[][];
}

export function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]!);
}

/** RFC 4180. */
export function toCsv({ columns, rows }: Table): string {
  const cell = (value: Cell) => {
    const words = value === null ? "" : String(value);
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function toJson({ columns, rows }: Table): string {
  return JSON.stringify(rows.map((row) => Object.fromEntries(row.map((value, i) => [columns[i], value]))), null, 1);
}

/** A drawn SVG element as a file of its own, on paper. */
export function svgText(element: SVGSVGElement, paper: string): string {
  const copy = element.cloneNode(true) as SVGSVGElement;
  const box = element.viewBox.baseVal;
  copy.querySelectorAll("[data-screen-only]").forEach((part) => part.remove());
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  copy.setAttribute("font-family", FONT);
  copy.removeAttribute("style");
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x: box.x, y: box.y, width: box.width, height: box.height, fill: paper }))
    ground.setAttribute(name, String(value));
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** An SVG file on paper around `content`. */
export function sheet(width: number, height: number, paper: string, content: string): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ` +
    `font-family="${FONT}"><rect width="100%" height="100%" fill="${paper}"/>${content}</svg>`
  );
}

/** Vectors one below the other: a bar a number, up when positive and down when negative, each at its own scale. */
export function stripsSvg(strips: { label: string; values: number[] }[], palette: Palette): string {
  const [width, half, step] = [720, 28, 84];
  const parts = strips.map(({ label, values }, i) => {
    const limit = Math.max(...values.map(Math.abs));
    const bar = width / values.length;
    const bars = values.map((value, j) => {
      const tall = limit ? (Math.abs(value) / limit) * half : 0;
      const y = value >= 0 ? half - tall : half;
      return tall
        ? `<rect x="${(j * bar).toFixed(2)}" y="${y.toFixed(2)}" width="${(bar > 3 ? bar - 0.5 : bar).toFixed(2)}" ` +
            `height="${tall.toFixed(2)}" fill="${css(barColour(palette, value, limit))}"/>`
        : "";
    });
    return (
      `<text x="16" y="${i * step + 22}" font-size="11" fill="${palette.ink}">${escapeXml(label)}</text>` +
      `<g transform="translate(16 ${i * step + 28})">${bars.join("")}` +
      `<rect y="${half - 0.5}" width="${width}" height="1" fill="${palette.line}"/></g>`
    );
  });
  return sheet(width + 32, strips.length * step + 16, palette.paper, parts.join(""));
}

/** Shares from 0 to 1 as bars, a line each. */
export function barsSvg(
  title: string,
  bars: { label: string; value: number; note: string }[],
  palette: Palette,
  widthOf: (label: string, size: number) => number,
): string {
  const left = 24 + Math.max(0, ...bars.map(({ label }) => widthOf(label, 12)));
  const parts = bars.map(({ label, value, note }, i) => {
    const y = 32 + i * 22;
    const anchor = Object.entries(anchored(label, "right")).map(([name, words]) => ` ${name}="${words}"`);
    return (
      `<text x="${left - 8}" y="${y + 14}"${anchor.join("")} fill="${palette.ink}">${escapeXml(label)}</text>` +
      `<rect x="${left}" y="${y + 4}" width="${(300 * value).toFixed(2)}" height="13" rx="2" fill="${palette.accent}"/>` +
      `<text x="${(left + 300 * value + 8).toFixed(2)}" y="${y + 14}" fill="${palette.muted}">${escapeXml(note)}</text>`
    );
  });
  const heading = `<text x="16" y="20" fill="${palette.ink}" font-weight="700">${escapeXml(title)}</text>`;
  const width = Math.max(left + 400, widthOf(title, 13) * 1.1 + 32);
  return sheet(width, 44 + bars.length * 22, palette.paper, `<g font-size="12">${heading}${parts.join("")}</g>`);
}

/** Grids of coloured cells with a number in each, side by side. */
export function gridsSvg(
  title: string,
  grids: { title: string; rows: { label: string; cells: { colour: Rgb | null; words: string }[] }[] }[],
  palette: Palette,
): string {
  const [cellWidth, cellHeight, top] = [46, 34, 56];
  let x = 16;
  const parts = grids.map((grid) => {
    const across = Math.max(1, ...grid.rows.map(({ cells }) => cells.length));
    const rows = grid.rows.map(({ label, cells }, row) => {
      const y = top + row * cellHeight;
      const drawn = cells.map(({ colour, words }, i) => {
        const left = 34 + i * cellWidth;
        return (
          `<rect x="${left}" y="${y}" width="${cellWidth - 2}" height="${cellHeight - 2}" rx="3" ` +
          (colour ? `fill="${css(colour)}"/>` : `fill="none" stroke="${palette.line}"/>`) +
          `<text x="${left + cellWidth / 2 - 1}" y="${y + 20}" text-anchor="middle" fill="${colour ? inkOn(colour) : palette.ink}">` +
          `${escapeXml(words)}</text>`
        );
      });
      return `<text y="${y + 20}" fill="${palette.muted}">${escapeXml(label)}</text>${drawn.join("")}`;
    });
    const heading = `<text y="${top - 8}" font-weight="700" fill="${palette.ink}">${escapeXml(grid.title)}</text>`;
    const part = `<g transform="translate(${x} 0)">${heading}${rows.join("")}</g>`;
    x += 34 + across * cellWidth + 24;
    return part;
  });
  const height = top + Math.max(1, ...grids.map(({ rows }) => rows.length)) * cellHeight + 12;
  const heading = `<text x="16" y="22" font-size="13" fill="${palette.ink}">${escapeXml(title)}</text>`;
  return sheet(x, height, palette.paper, `<g font-size="11">${heading}${parts.join("")}</g>`);
}

/** A grid of small maps as SVG rectangles; cells that would be the ground's colour are left out. */
export function mapsSvg(maps: { title: string; map: Matrix }[], across: number, palette: Palette, log: boolean): string {
  const { rows, columns } = maps[0].map;
  const [width, height] = [columns * 3, rows * 3];
  const [stepX, stepY] = [width + 16, height + 28];
  const total = [across * stepX + 16, Math.ceil(maps.length / across) * stepY + 16];
  const parts = maps.map(({ title, map }, i) => {
    const [x, y] = [16 + (i % across) * stepX, 24 + Math.floor(i / across) * stepY];
    let cells = "";
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) {
        const share = shade(at(map, row, column), log);
        if (share > 1 / 510)
          cells += `<rect x="${column * 3}" y="${row * 3}" width="3" height="3" fill="${css(sequential(palette, share))}"/>`;
      }
    return (
      `<g transform="translate(${x} ${y})"><text y="-5" font-size="10" fill="${palette.muted}">${escapeXml(title)}</text>` +
      `<rect width="${width}" height="${height}" fill="${css(sequential(palette, 0))}"/>${cells}</g>`
    );
  });
  return sheet(total[0], total[1], palette.paper, parts.join(""));
}

/** The SVG as the browser draws it, at `scale` pixels a unit. */
export async function toPng(svg: string, scale = 2): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth * scale;
    canvas.height = image.naturalHeight * scale;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("this picture is too large for a PNG"))), "image/png"),
    );
  } finally {
    URL.revokeObjectURL(url);
  }
}

export function save(name: string, content: Blob | string, type = "text/plain"): void {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
