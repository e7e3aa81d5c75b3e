import { modelValue } from "../state";

/** The `lang` attribute and the direction of a side's words. */
export function language(side: "source" | "target"): { lang?: string; rightToLeft: boolean } {
  const model = modelValue.value;
  const code = side === "source" ? model?.sourceLanguage : model?.targetLanguage;
  return {
    lang: code === "zh" ? "zh-Hans" : (code ?? undefined),
    rightToLeft: model?.rightToLeft?.[side] ?? false,
  };
}
