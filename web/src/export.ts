// Pictures and tables to files. Every picture is an SVG first; the PNG is drawn from it.
import { css, sequential, shade, type Palette } from "./colour";
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
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${total[0]} ${total[1]}" width="${total[0]}" height="${total[1]}" ` +
    `font-family="${FONT}"><rect width="100%" height="100%" fill="${palette.paper}"/>${parts.join("")}</svg>`
  );
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
