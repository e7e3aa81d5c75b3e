import { useId } from "preact/hooks";

/** A few choices side by side: radio buttons, dressed. */
export function Segmented<T extends string>(props: {
  label: string;
  value: T;
  choices: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  hideLabel?: boolean;
}) {
  const name = useId();
  return (
    <fieldset class="segmented">
      <legend class={props.hideLabel ? "unseen" : ""}>{props.label}</legend>
      <div>
        {props.choices.map(([value, words]) => (
          <label key={value}>
            <input type="radio" name={name} checked={value === props.value} onChange={() => props.onChange(value)} />
            <span>{words}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
