import type { Piece } from "../diff";

/** A sentence with the words that the other one lacks underlined. */
export function Diff({ pieces, lang, rightToLeft }: { pieces: Piece[]; lang?: string; rightToLeft?: boolean }) {
  return (
    <p class="sentence" lang={lang} dir={rightToLeft ? "rtl" : "auto"}>
      {pieces.map(({ text, mark }, i) => {
        const space = i > 0 && !/^\p{Script=Han}$/u.test(text) ? " " : "";
        return mark === "same" ? space + text : [space, <mark key={i}>{text}</mark>];
      })}
    </p>
  );
}
