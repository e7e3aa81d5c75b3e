import { save, toCsv, toJson, toPng, type Table } from "../export";
import { t } from "../i18n";

/** Buttons that write what is shown to a file. Pictures and tables are made when asked for. */
export function ExportBar(props: { name: string; what: string; svg?: () => string | null; table?: () => Table }) {
  const picture = (use: (svg: string) => void | Promise<void>) => () => {
    const svg = props.svg?.();
    if (svg) void use(svg);
  };
  const label = (format: string) => t("export.as", { what: props.what, format });
  return (
    <div class="export" role="group" aria-label={t("export.group", { what: props.what })}>
      {props.svg && (
        <>
          <button
            type="button"
            aria-label={label("SVG")}
            onClick={picture((svg) => save(`${props.name}.svg`, svg, "image/svg+xml"))}
          >
            SVG
          </button>
          <button
            type="button"
            aria-label={label("PNG")}
            onClick={picture(async (svg) => save(`${props.name}.png`, await toPng(svg)))}
          >
            PNG
          </button>
        </>
      )}
      {props.table && (
        <>
          <button
            type="button"
            aria-label={label("CSV")}
            onClick={() => save(`${props.name}.csv`, "\ufeff" + toCsv(props.table!()), "text/csv")}
          >
            CSV
          </button>
          <button
            type="button"
            aria-label={label("JSON")}
            onClick={() => save(`${props.name}.json`, toJson(props.table!()), "application/json")}
          >
            JSON
          </button>
        </>
      )}
    </div>
  );
}
