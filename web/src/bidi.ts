// Words that run from right to left between words and numbers that do not.
const LETTERS = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/** Whether the first letter says so; as `<bdi>` decides. */
export function isRightToLeft(text: string): boolean {
  return LETTERS.test(text.match(/\p{L}/u)?.[0] ?? "");
}

/** SVG attributes with which drawn words keep one edge at their x. In SVG, start and end change sides with the direction. */
export function anchored(text: string, edge: "left" | "right"): { direction?: "rtl"; "text-anchor": "start" | "end" } {
  if (isRightToLeft(text)) return { direction: "rtl", "text-anchor": edge === "left" ? "end" : "start" };
  return { "text-anchor": edge === "left" ? "start" : "end" };
}

/** Keeps what follows the words where it was written: else a number after them would change sides. */
export function isolate(text: string): string {
  return LETTERS.test(text) ? `\u2068${text}\u2069` : text;
}
