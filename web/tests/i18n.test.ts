import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";

describe("languages", () => {
  const holes = (words: string) => (words.match(/\{\w+\}/g) ?? []).sort().join();
  it("have the same keys", () => {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
  });
  it("fill in the same values", () => {
    const keys = Object.keys(en) as (keyof typeof en)[];
    expect(keys.filter((key) => holes(en[key]) !== holes(zh[key]))).toEqual([]);
  });
  it("leave no English sentence in Chinese", () => {
    const plain = Object.entries(zh).filter(
      ([key, words]) => !/\p{Script=Han}/u.test(words) && /[A-Za-z]{4}/.test(words.replace(/\{\w+\}/g, "")) && !key.startsWith("box."),
    );
    expect(plain.map(([key]) => key)).toEqual([]);
  });
  it("use every key", () => {
    const folder = new URL("../src/", import.meta.url);
    const source = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => /\.tsx?$/.test(name) && !/i18n.(en|zh)\.ts/.test(name))
      .map((name) => readFileSync(new URL(name, folder), "utf8"))
      .join();
    const made = /^(view|kind|beam|chips|flow|part|box|flag|measure|error)\./;
    const unused = Object.keys(en).filter((key) => !made.test(key) && !source.includes(`"${key}"`));
    expect(unused).toEqual([]);
  });
});
