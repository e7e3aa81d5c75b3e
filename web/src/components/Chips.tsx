import type { Item } from "../axes";
import { css, inkOn, sequential, shade } from "../colour";
import { percent } from "../i18n";
import { palette } from "../theme";
import { roving } from "./roving";

/** Words in a line; with `weights`, each is shaded by its own. One tab stop, arrow keys from word to word. */
export function Chips(props: {
  label: string;
  items: Item[];
  lang?: string;
  rightToLeft?: boolean;
  weights?: ArrayLike<number> | null;
  active?: number | null;
  onHover?: (index: number | null) => void;
  onPick?: (index: number) => void;
}) {
  const { items, weights } = props;
  return (
    <div
      class="chips"
      role="group"
      aria-label={props.label}
      lang={props.lang}
      dir={props.rightToLeft ? "rtl" : "ltr"}
      onPointerLeave={() => props.onHover?.(null)}
      {...roving(items.length)}
    >
      {items.map((item, index) => {
        const share = weights?.[index];
        const colour = share === undefined ? null : sequential(palette.value, shade(share, false));
        return (
          <button
            type="button"
            key={index}
            data-cell={index}
            tabIndex={index === 0 ? 0 : -1}
            class={`chip ${item.separator ? "separator" : ""} ${index === props.active ? "active" : ""}`}
            aria-pressed={index === props.active}
            style={colour ? { background: css(colour), color: inkOn(colour) } : { background: "", color: "" }}
            onPointerEnter={(event) => event.pointerType === "mouse" && props.onHover?.(index)}
            onFocus={(event) => event.currentTarget.matches(":focus-visible") && props.onHover?.(index)}
            onBlur={() => props.onHover?.(null)}
            onClick={() => props.onPick?.(index)}
          >
            <bdi>{item.label}</bdi>
            {share !== undefined && <small>{share >= 0.005 ? percent(share) : "·"}</small>}
          </button>
        );
      })}
    </div>
  );
}
