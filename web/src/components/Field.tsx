import type { ComponentChildren } from "preact";

/** A label above what it names. */
export function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
    </label>
  );
}

export function Check(props: { label: string; checked: boolean; onChange: (on: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.checked}
        disabled={props.disabled}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <span>{props.label}</span>
    </label>
  );
}

/** A slider that says its value. */
export function Slider(props: {
  label: string;
  value: number;
  min: number;
  max: number;
  step?: number;
  show?: (value: number) => string;
  onInput: (value: number) => void;
}) {
  const words = props.show?.(props.value) ?? String(props.value);
  return (
    <label class="field slider">
      <span>
        {props.label} <output>{words}</output>
      </span>
      <input
        type="range"
        min={props.min}
        max={props.max}
        step={props.step ?? 1}
        value={props.value}
        aria-valuetext={words}
        onInput={(event) => props.onInput(event.currentTarget.valueAsNumber)}
      />
    </label>
  );
}
