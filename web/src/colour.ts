// Colour scales whose lightness alone carries the order, so that any kind of colour vision reads them.

export type Rgb = [number, number, number];
export interface Palette {
  paper: string;
  ink: string;
  muted: string;
  line: string;
  accent: string;
  warm: string;
  series: string[];
  sequential: Rgb[];
  diverging: Rgb[];
}

const hex = (text: string): Rgb => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)) as Rgb;

function ramp(stops: string[], size = 256): Rgb[] {
  const colours = stops.map(hex);
  return Array.from({ length: size }, (_, i) => {
    const place = (i / (size - 1)) * (colours.length - 1);
    const left = Math.min(Math.floor(place), colours.length - 2);
    return colours[left].map((value, c) => Math.round(value + (place - left) * (colours[left + 1][c] - value))) as Rgb;
  });
}

export const LIGHT: Palette = {
  paper: "#ffffff",
  ink: "#1b1f24",
  muted: "#5c6570",
  line: "#d9d6cd",
  accent: "#17608f",
  warm: "#a8500f",
  series: ["#17608f", "#a8500f", "#3d7a3a", "#7a4a9e", "#8a6a00", "#b0305c"],
  sequential: ramp(["#f5f4f0", "#cfe0ea", "#8db9d3", "#4585b0", "#1d5585", "#0b2a4a"]),
  diverging: ramp(["#8f3f06", "#d98a3f", "#f2ddc2", "#f5f4f0", "#c3dbe8", "#4c8fb9", "#0f4a75"]),
};

export const DARK: Palette = {
  paper: "#181c20",
  ink: "#e8e6e1",
  muted: "#a3abb3",
  line: "#363c43",
  accent: "#7cbce4",
  warm: "#eda05f",
  series: ["#7cbce4", "#eda05f", "#8fce8a", "#c8a2e8", "#dcc060", "#f08fb2"],
  sequential: ramp(["#20252a", "#1f3c52", "#2b6189", "#4d92be", "#98c8e2", "#f0f8fc"]),
  diverging: ramp(["#ffc68f", "#cf7f35", "#5d3a1c", "#20252a", "#1f3c52", "#4d92be", "#c4e3f3"]),
};

/** 0 to 1 for a weight: as it is, or by its order of magnitude down to 0.0001. */
export function shade(weight: number, log: boolean): number {
  const value = log ? 1 + Math.log10(Math.max(weight, 1e-4)) / 4 : weight;
  return Math.min(1, Math.max(0, value));
}

export const css = ([r, g, b]: Rgb): string => `rgb(${r},${g},${b})`;

/** The colour of a share from 0 to 1. */
export function sequential(palette: Palette, share: number): Rgb {
  return palette.sequential[Math.round(Math.min(1, Math.max(0, share)) * 255)];
}

/** The colour of a signed value; `limit` is the largest size shown. */
export function diverging(palette: Palette, value: number, limit: number): Rgb {
  const share = limit > 0 ? Math.min(1, Math.max(-1, value / limit)) : 0;
  return palette.diverging[Math.round(((share + 1) / 2) * 255)];
}

/** The colour of a bar in a vector: as `diverging`, but a small bar is still seen. */
export function barColour(palette: Palette, value: number, limit: number): Rgb {
  return diverging(palette, Math.sign(value) * (limit * 0.55 + Math.abs(value) * 0.45), limit);
}

/** Black or white, whichever reads better on the colour (WCAG relative luminance). */
export function inkOn(colour: Rgb): string {
  const [r, g, b] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
