import { batch } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { embedded, type Trace } from "../api";
import { prefixIds } from "../beam";
import { BeamTree } from "../components/BeamTree";
import { Diff } from "../components/Diff";
import { ExportBar } from "../components/ExportBar";
import { Field } from "../components/Field";
import { Loaded } from "../components/Loaded";
import { diff } from "../diff";
import { named, number, t } from "../i18n";
import { modelValue, off, ownTranslation, settings, text, trace, translate, whole } from "../state";
import { AttentionPanel } from "./AttentionPanel";
import { language } from "./language";

export function Translate() {
  return (
    <>
      {!embedded && <Ask />}
      <Loaded of={trace.value} retry={() => void translate()}>
        {(value) => <Result trace={value} />}
      </Loaded>
      {trace.value.state === "idle" && (
        <div class="empty">
          <p>{t("translate.empty")}</p>
          <Examples />
        </div>
      )}
    </>
  );
}

function Examples() {
  const examples = modelValue.value?.examples ?? [];
  if (!examples.length) return null;
  return (
    <ul class="examples" aria-label={t("translate.examples")}>
      {examples.slice(0, 4).map((example) => (
        <li key={example}>
          <button
            type="button"
            class="quiet"
            lang={language("source").lang}
            dir={language("source").rightToLeft ? "rtl" : "auto"}
            onClick={() => {
              text.value = example;
              void translate();
            }}
          >
            {example}
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The sentence and how it is searched for. */
function Ask() {
  const search = modelValue.value?.search;
  const { lang, rightToLeft } = language("source");
  const own = language("target");
  const set = (values: Partial<typeof settings.value>) => (settings.value = { ...settings.value, ...values });
  const numeric = (event: Event) => {
    const value = (event.currentTarget as HTMLInputElement).valueAsNumber;
    return Number.isNaN(value) ? undefined : value;
  };
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault();
        void translate();
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          void translate();
        }
      }}
    >
      <label class="field">
        <span>{t("translate.source")}</span>
        <textarea
          rows={2}
          value={text.value}
          lang={lang}
          dir={rightToLeft ? "rtl" : "auto"}
          placeholder={t("translate.placeholder")}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <button type="submit" class="primary" disabled={trace.value.state === "loading"}>
          {t("translate.button")} <kbd>Ctrl ⏎</kbd>
        </button>
        <Field label={t("translate.beamSize")}>
          <input
            type="number"
            min={1}
            max={32}
            value={settings.value.beam_size ?? search?.beam_size}
            onInput={(event) => set({ beam_size: numeric(event) })}
          />
        </Field>
        <Field label={t("translate.lengthPenalty")}>
          <input
            type="number"
            min={0}
            max={5}
            step={0.1}
            value={settings.value.length_penalty ?? search?.length_penalty}
            onInput={(event) => set({ length_penalty: numeric(event) })}
          />
        </Field>
        <Field label={t("translate.nBest")}>
          <input
            type="number"
            min={1}
            max={settings.value.beam_size ?? search?.beam_size ?? 8}
            value={settings.value.n_best}
            onInput={(event) => set({ n_best: numeric(event) ?? 1 })}
          />
        </Field>
      </div>
      <details>
        <summary>{t("translate.own")}</summary>
        <p class="hint">{t("translate.ownHint")}</p>
        <div class="row">
          <label class="field wide">
            <span>{t("translate.ownLabel")}</span>
            <input
              type="text"
              value={ownTranslation.value}
              lang={own.lang}
              dir={own.rightToLeft ? "rtl" : "auto"}
              onInput={(event) => (ownTranslation.value = event.currentTarget.value)}
            />
          </label>
          <button
            type="button"
            disabled={!ownTranslation.value.trim()}
            onClick={() => void translate({ target: ownTranslation.value })}
          >
            {t("translate.ownButton")}
          </button>
        </div>
      </details>
    </form>
  );
}

function Result({ trace }: { trace: Trace }) {
  return (
    <>
      <section aria-labelledby="result-title">
        <h2 id="result-title" class="unseen">
          {t("translate.result")}
        </h2>
        {trace.off.length && whole.value ? <Comparison trace={trace} before={whole.value} /> : <Best trace={trace} />}
        {trace.alternatives.length > 1 && <Alternatives trace={trace} />}
      </section>
      <AttentionPanel trace={trace} />
      <section aria-labelledby="beam-title">
        <h3 id="beam-title">{t("beam.title")}</h3>
        {trace.beam?.steps.length ? (
          <>
            <p class="hint">{t("beam.explain", { size: trace.beam.size, alpha: trace.beam.alpha })}</p>
            <BeamTree
              key={trace.id}
              beam={trace.beam}
              lang={language("target").lang}
              onForce={(step, index) => !embedded && void translate({ prefix_ids: prefixIds(trace.beam!, step, index) })}
            />
          </>
        ) : (
          <p class="hint">{trace.forced ? t("beam.forced") : t("beam.none")}</p>
        )}
      </section>
    </>
  );
}

function Figures({ trace }: { trace: Trace }) {
  return (
    <p class="figures">
      <span>{t("translate.score", { value: number(trace.score) })}</span>
      <span>{t("translate.logProb", { value: number(trace.log_prob, 2) })}</span>
      {trace.seconds !== null && <span>{t("translate.seconds", { value: number(trace.seconds, 2) })}</span>}
      {trace.forced && <span class="flag">{t("flag.forced")}</span>}
      {trace.flags.map((flag) => (
        <span class="flag" key={flag}>
          {named("flag", flag)}
        </span>
      ))}
    </p>
  );
}

function Best({ trace }: { trace: Trace }) {
  const { lang, rightToLeft } = language("target");
  return (
    <div class="best">
      <p class="sentence" lang={lang} dir={rightToLeft ? "rtl" : "auto"}>
        {trace.translation}
      </p>
      <Figures trace={trace} />
    </div>
  );
}

/** With heads off beside all heads on. */
function Comparison({ trace, before }: { trace: Trace; before: Trace }) {
  const [left, right] = useMemo(() => diff(before.translation, trace.translation), [before, trace]);
  const same = before.translation === trace.translation;
  const words = language("target");
  return (
    <div class="comparison">
      <div>
        <h3>{t("compare.on")}</h3>
        <Diff pieces={left} {...words} />
        <Figures trace={before} />
      </div>
      <div>
        <h3>{t("compare.off", { count: trace.off.length })}</h3>
        <Diff pieces={right} {...words} />
        <Figures trace={trace} />
      </div>
      <p class="hint">
        {same ? t("compare.same") : t("compare.differs")} {trace.off.join(", ")}{" "}
        {!embedded && (
          <button
            type="button"
            class="quiet"
            onClick={() => {
              batch(() => (off.value = new Set()));
              void translate();
            }}
          >
            {t("compare.reset")}
          </button>
        )}
      </p>
    </div>
  );
}

function Alternatives({ trace }: { trace: Trace }) {
  const { lang, rightToLeft } = language("target");
  return (
    <details class="alternatives">
      <summary>{t("nbest.title", { count: trace.alternatives.length })}</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("nbest.rank")}</th>
            <th scope="col">{t("nbest.text")}</th>
            <th scope="col">{t("nbest.score")}</th>
            <th scope="col">log P</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {trace.alternatives.map((one, rank) => (
            <tr key={rank}>
              <td>{rank + 1}</td>
              <td lang={lang} dir={rightToLeft ? "rtl" : "auto"}>
                {one.text} {!one.finished && <span class="flag">{t("nbest.unfinished")}</span>}
              </td>
              <td>{number(one.score)}</td>
              <td>{number(one.log_prob, 2)}</td>
              <td>
                {!embedded && (
                  <button
                    type="button"
                    class="quiet"
                    aria-label={t("nbest.lookAt", { rank: rank + 1 })}
                    onClick={() => void translate({ target: one.text })}
                  >
                    {t("nbest.look")}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ExportBar
        name="n-best"
        what={t("nbest.title", { count: trace.alternatives.length })}
        table={() => ({
          columns: ["rank", "text", "score", "log_prob", "finished"],
          rows: trace.alternatives.map((one, rank) => [rank + 1, one.text, one.score, one.log_prob, one.finished]),
        })}
      />
    </details>
  );
}
