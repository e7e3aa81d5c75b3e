import { useEffect, useRef, useState } from "preact/hooks";
import { api, ApiError } from "../api";
import { Curves } from "../components/Curves";
import { Loaded } from "../components/Loaded";
import { t } from "../i18n";
import { asApiError, type Loadable } from "../load";

type Line = Record<string, unknown>;
const POLL = 2000;

/** The points of one field in the records of one sort. */
function points(records: Line[], sort: string, field: string): [number, number][] {
  return records.flatMap((record) =>
    record.record === sort && typeof record.update === "number" && typeof record[field] === "number"
      ? [[record.update, record[field]] as [number, number]]
      : [],
  );
}

/** The curves of a run, growing while it runs. */
export function Training() {
  const [state, setState] = useState<Loadable<{ records: Line[]; running: boolean }>>({ state: "loading" });
  const [turn, setTurn] = useState(0);
  const records = useRef<Line[]>([]);
  const next = useRef(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gone = false;
    const ask = async () => {
      try {
        const answer = await api.training(next.current);
        if (gone) return;
        records.current = [...records.current, ...answer.records];
        next.current = answer.next;
        setState({ state: "ready", value: { records: records.current, running: answer.running } });
        if (answer.running) timer = setTimeout(ask, POLL);
      } catch (error) {
        if (!gone) setState({ state: "error", error: asApiError(error) as ApiError });
      }
    };
    void ask();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [turn]);
  return (
    <Loaded of={state} retry={() => setTurn(turn + 1)}>
      {({ records: all, running }) =>
        all.length ? <Run records={all} running={running} /> : <div class="empty">{t("training.empty")}</div>
      }
    </Loaded>
  );
}

function Run({ records, running }: { records: Line[]; running: boolean }) {
  const one = (name: string, sort: string, field: string) => ({ name, points: points(records, sort, field) });
  const update = t("training.update");
  const charts = [
    {
      title: t("training.loss"),
      fileName: "loss",
      series: [one(t("training.trainLoss"), "progress", "loss"), one(t("training.validLoss"), "validation", "loss")],
    },
    { title: t("training.rate"), fileName: "rate", series: [one(t("training.rate"), "progress", "rate")] },
    {
      title: t("training.quality"),
      fileName: "quality",
      series: [one("BLEU", "validation", "bleu"), one("chrF", "validation", "chrf")],
    },
  ];
  const last = records.filter((record) => record.record === "progress").at(-1);
  return (
    <>
      <p class="lead" role="status">
        {t(running ? "training.running" : "training.over", { update: String(last?.update ?? "–") })}
      </p>
      {charts
        .filter(({ series }) => series.some((line) => line.points.length))
        .map((chart) => (
          <section key={chart.fileName}>
            <Curves {...chart} xName={update} />
          </section>
        ))}
    </>
  );
}
