// Which words two sentences share: longest common subsequence.

export interface Piece {
  text: string;
  mark: "same" | "only";
}

function split(sentence: string): string[] {
  return sentence.match(/\p{Script=Han}|[^\s\p{Script=Han}]+/gu) ?? [];
}

/** Both sentences word by word (Chinese: character by character), each word marked as shared or not. */
export function diff(left: string, right: string): [Piece[], Piece[]] {
  const [a, b] = [split(left), split(right)];
  const length = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const [first, second]: [Piece[], Piece[]] = [[], []];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      first.push({ text: a[i++], mark: "same" });
      second.push({ text: b[j++], mark: "same" });
    } else if (j === b.length || (i < a.length && length[i + 1][j] >= length[i][j + 1])) {
      first.push({ text: a[i++], mark: "only" });
    } else {
      second.push({ text: b[j++], mark: "only" });
    }
  }
  return [first, second];
}
