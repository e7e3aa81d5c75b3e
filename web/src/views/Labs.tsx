import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, type LabEntry, type LabParameter, type LabResult } from "../api";
import { ExportBar } from "../components/ExportBar";
import { Check, Field, Slider } from "../components/Field";
import { Loaded } from "../components/Loaded";
import { lang, t } from "../i18n";
import { useLoad } from "../load";
import { go, note, route } from "../router";
import { model } from "../state";

type Values = Record<string, string | number>;

/** Small experiments with numbers: a list, and the one that is open. */
export function Labs() {
  const [list, retry] = useLoad(`labs ${lang.value}`, () => api.labs(lang.value));
  const name = route.value.rest;
  return (
    <Loaded of={list} retry={retry}>
      {(labs) => {
        const open = labs.find((lab) => lab.name === name);
        return open ? <Lab key={open.name} lab={open} labs={labs} /> : <List labs={labs} />;
      }}
    </Loaded>
  );
}

function List({ labs }: { labs: LabEntry[] }) {
  return (
    <>
      <p class="lead">{t("labs.lead")}</p>
      <ol class="lab-list">
        {labs.map((lab) => (
          <li key={lab.name}>
            <button type="button" onClick={() => go("labs", lab.name)}>
              <span class="order">{lab.number}</span>
              <strong>{lab.title}</strong>
              <span>{lab.question}</span>
              {(lab.needs === "model" || lab.takesModel) && <small>{t("labs.usesModel")}</small>}
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}

/** The parameters' own values, or what the address says. */
function initial({ parameters, takesModel }: LabEntry): Values {
  const { query } = route.peek();
  const values: Values = Object.fromEntries(
    (parameters ?? []).map(({ name, kind, default: standard }) => {
      const given = query.get(name);
      return [name, given === null ? standard : kind === "int" || kind === "float" ? Number(given) : given];
    }),
  );
  if (takesModel) values.model = query.get("model") ?? "1";
  return values;
}

function Lab({ lab, labs }: { lab: LabEntry; labs: LabEntry[] }) {
  const parameters = lab.parameters ?? [];
  const [values, setValues] = useState(() => initial(lab));
  const [settled, setSettled] = useState(values);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(values), 250); // a slider on the move asks once it rests
    return () => clearTimeout(timer);
  }, [values]);
  const takesModel = lab.takesModel && model.value.state !== "error"; // without one, the lab's own part is left
  const asked = lab.takesModel && !takesModel ? { ...settled, model: "0" } : settled;
  const [result, retry] = useLoad(`${lab.name} ${lang.value} ${JSON.stringify(asked)}`, () => api.lab(lab.name, lang.value, asked));
  useEffect(() => note(Object.fromEntries(Object.entries(settled).map(([name, value]) => [name, String(value)]))), [settled]);
  const place = labs.indexOf(lab);
  const neighbour = (step: number, words: string) =>
    labs[place + step] && (
      <button type="button" onClick={() => go("labs", labs[place + step].name)}>
        {words} {labs[place + step].title}
      </button>
    );
  return (
    <article class="lab">
      <button type="button" class="quiet" onClick={() => go("labs")}>
        ← {t("labs.all")}
      </button>
      <h2>
        <span class="order">{lab.number}</span> {lab.title}
      </h2>
      <p class="lead">{lab.question}</p>
      {(parameters.length > 0 || takesModel) && (
        <div class="row parameters" role="group" aria-label={t("labs.parameters")}>
          {parameters.map((parameter) => (
            <Parameter
              key={parameter.name}
              parameter={parameter}
              value={values[parameter.name]}
              onChange={(value) => setValues((before) => ({ ...before, [parameter.name]: value }))}
            />
          ))}
          {takesModel && (
            <Check
              label={t("labs.takesModel")}
              checked={values.model === "1"}
              onChange={(on) => setValues((before) => ({ ...before, model: on ? "1" : "0" }))}
            />
          )}
        </div>
      )}
      <Loaded of={result} retry={retry}>
        {(value) => <Result result={value} />}
      </Loaded>
      <nav class="row neighbours" aria-label={t("labs.neighbours")}>
        {neighbour(-1, "←")}
        {neighbour(1, "→")}
      </nav>
    </article>
  );
}

function Parameter(props: { parameter: LabParameter; value: string | number; onChange: (value: string | number) => void }) {
  const { parameter, value, onChange } = props;
  const { kind, label, min, max, step, choices } = parameter;
  if (kind === "choice")
    return (
      <Field label={label}>
        <select
          value={String(value)}
          onChange={({ currentTarget }) => onChange(choices!.find((choice) => String(choice) === currentTarget.value)!)}
        >
          {choices!.map((choice) => (
            <option key={String(choice)}>{String(choice)}</option>
          ))}
        </select>
      </Field>
    );
  if (kind === "text")
    return (
      <Field label={label}>
        <input type="text" value={value} maxLength={max} onInput={({ currentTarget }) => onChange(currentTarget.value)} />
      </Field>
    );
  if (min !== undefined && max !== undefined && min !== null && max !== null)
    return (
      <Slider label={label} value={Number(value)} min={min} max={max} step={step ?? (kind === "int" ? 1 : 0.01)} onInput={onChange} />
    );
  return (
    <Field label={label}>
      <input
        type="number"
        value={value}
        step={step ?? (kind === "int" ? 1 : "any")}
        onInput={({ currentTarget }) => Number.isFinite(currentTarget.valueAsNumber) && onChange(currentTarget.valueAsNumber)}
      />
    </Field>
  );
}

function Result({ result }: { result: LabResult }) {
  return (
    <>
      <p class="idea">{result.idea}</p>
      <div class="lab-pictures">
        {result.pictures.map((picture, i) => (
          <figure key={picture.title} class="lab-picture">
            <figcaption>
              <span class="figure-title">{picture.title}</span>
              <ExportBar name={`${result.name}-${i + 1}`} what={picture.title} svg={() => picture.svg} />
            </figcaption>
            <Picture svg={picture.svg} title={picture.title} />
          </figure>
        ))}
      </div>
      {result.numbers.length > 0 && (
        <section>
          <h3>{t("labs.numbers")}</h3>
          <dl class="facts">
            {result.numbers.map(({ label, value }, i) => (
              <div key={i}>
                <dt>{label}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
          <ExportBar
            name={result.name}
            what={t("labs.numbers")}
            table={() => ({ columns: ["label", "value"], rows: result.numbers.map(({ label, value }) => [label, value]) })}
          />
        </section>
      )}
      {result.checks.length > 0 && (
        <section>
          <h3>{t("labs.checks")}</h3>
          <p class="hint">{t("labs.checksExplain")}</p>
          <ul class="checks">
            {result.checks.map((check, i) => {
              const well = check.holds !== check.control;
              const verdict = check.control
                ? t(check.holds ? "labs.controlHolds" : "labs.controlFails")
                : t(check.holds ? "labs.holds" : "labs.fails");
              return (
                <li key={i} class={well ? "well" : "ill"}>
                  <span class="verdict">
                    {well ? "✓" : "✗"} {verdict}
                  </span>
                  <span>{check.claim}</span>
                  <code>{check.found}</code>
                </li>
              );
            })}
          </ul>
          <ExportBar
            name={`${result.name}-checks`}
            what={t("labs.checks")}
            table={() => ({
              columns: ["claim", "found", "holds", "control"],
              rows: result.checks.map(({ claim, found, holds, control }) => [claim, found, holds, control]),
            })}
          />
        </section>
      )}
      <p class="hint">
        {t("labs.source")} {result.source}
      </p>
    </>
  );
}

/** The server's SVG, parsed as a document of its own and taken over as nodes. */
function Picture({ svg, title }: { svg: string; title: string }) {
  const frame = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    if (parsed.nodeName !== "svg") return frame.current!.replaceChildren(t("labs.badPicture"));
    frame.current!.replaceChildren(document.importNode(parsed, true));
  }, [svg]);
  return <div class="paper picture" ref={frame} role="img" aria-label={title} tabIndex={0} />;
}
