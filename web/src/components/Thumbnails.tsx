import { useMemo } from "preact/hooks";
import type { Kind, Maps } from "../api";
import { bitmap, colourTable } from "../bitmap";
import { shade } from "../colour";
import { decodeBytes } from "../decode";
import { mapsSvg } from "../export";
import { t } from "../i18n";
import { fromBytes, thumbnail } from "../matrix";
import { headName } from "../state";
import { palette } from "../theme";
import { ExportBar } from "./ExportBar";
import { Icon } from "./Icon";
import { roving } from "./roving";

function Thumbnail(props: { values: Uint8Array; columns: number; colours: Uint8Array }) {
  const { values, columns, colours } = props;
  return <img alt="" decoding="sync" src={useMemo(() => bitmap(values, columns, colours), [values, columns, colours])} />;
}

/** Every head of one attention: a row a layer, a column a head. Click or Enter opens one; the eye switches it off. */
export function Thumbnails(props: {
  kind: Kind;
  maps: Maps;
  log: boolean;
  off: ReadonlySet<string>;
  open: { layer: number | "all"; head: number | string } | null;
  onOpen: (layer: number, head: number) => void;
  onToggle: (name: string) => void;
  onToggleLayer: (layer: number) => void;
  canToggle: boolean;
}) {
  const { kind, maps, log, off } = props;
  const bytes = useMemo(() => decodeBytes(maps.weights), [maps.weights]);
  const range = (count: number) => Array.from({ length: count }, (_, i) => i);
  const pictures = useMemo(
    () => range(maps.layers).map((layer) => range(maps.heads).map((head) => thumbnail(maps, bytes, layer, head))),
    [bytes],
  );
  const colours = useMemo(() => {
    const table = palette.value.sequential;
    return colourTable(table.map((_, byte) => table[Math.round(shade(byte / 255, log) * 255)]));
  }, [palette.value, log]);
  const title = t(`kind.${kind}`);
  const toggles = roving(1);
  return (
    <figure class="thumbnails">
      <figcaption>
        <h4>{title}</h4>
        <ExportBar
          name={`heads-${kind}`}
          what={title}
          svg={() =>
            mapsSvg(
              range(maps.layers * maps.heads).map((i) => {
                const [layer, head] = [Math.floor(i / maps.heads), i % maps.heads];
                return {
                  title: t("head.short", { layer: layer + 1, head: head + 1 }),
                  map: fromBytes(maps, bytes, layer, head),
                };
              }),
              maps.heads,
              palette.value,
              log,
            )
          }
        />
      </figcaption>
      <div class="thumbnail-scroll">
        <div role="grid" aria-label={t("thumbnails.label", { kind: title })} {...roving(maps.heads)}>
          {range(maps.layers).map((layer) => (
            <div role="row" key={layer}>
              <span role="rowheader" class="layer-name">
                {t("layer.short", { layer: layer + 1 })}
              </span>
              {range(maps.heads).map((head) => {
                const isOff = off.has(headName(kind, layer, head));
                const isOpen = props.open?.layer === layer && props.open.head === head;
                return (
                  <div role="gridcell" key={head}>
                    <button
                      type="button"
                      data-cell
                      tabIndex={layer + head === 0 ? 0 : -1}
                      class={`thumbnail ${isOpen ? "open" : ""} ${isOff ? "off" : ""}`}
                      aria-pressed={isOpen}
                      aria-label={t("head.name", { kind: title, layer: layer + 1, head: head + 1 }) + (isOff ? ` (${t("head.off")})` : "")}
                      aria-keyshortcuts="o"
                      title={t("head.name", { kind: title, layer: layer + 1, head: head + 1 })}
                      onClick={() => props.onOpen(layer, head)}
                      onKeyDown={(event) => event.key === "o" && props.canToggle && props.onToggle(headName(kind, layer, head))}
                    >
                      <Thumbnail values={pictures[layer][head]} columns={maps.columns} colours={colours} />
                      {isOff && <span class="off-mark">{t("head.offMark")}</span>}
                    </button>
                    {props.canToggle && (
                      <button
                        type="button"
                        class="switch"
                        tabIndex={-1}
                        aria-pressed={isOff}
                        aria-label={`${t("head.switchOff")}: ${t("head.short", { layer: layer + 1, head: head + 1 })}`}
                        title={t("head.switchOff")}
                        onClick={() => props.onToggle(headName(kind, layer, head))}
                      >
                        <Icon name="power" />
                      </button>
                    )}
                  </div>
                );
              })}
            </div>
          ))}
        </div>
        {props.canToggle && (
        <div class="layer-toggles" role="group" aria-label={t("layer.toggles", { kind: title })} {...toggles}>
          {range(maps.layers).map((layer) => {
            const all = range(maps.heads).every((head) => off.has(headName(kind, layer, head)));
            return (
              <button
                type="button"
                key={layer}
                data-cell
                tabIndex={layer === 0 ? 0 : -1}
                aria-pressed={all}
                aria-label={t("layer.off", { layer: layer + 1 })}
                title={t("layer.off", { layer: layer + 1 })}
                onClick={() => props.onToggleLayer(layer)}
              >
                <Icon name="power" />
              </button>
            );
          })}
        </div>
        )}
      </div>
    </figure>
  );
}
