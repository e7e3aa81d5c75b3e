import type { ComponentChildren } from "preact";
import type { ApiError } from "../api";
import { t } from "../i18n";
import type { Loadable } from "../load";
import { go } from "../router";

/** Why nothing is shown, and what can be done. */
export function Trouble({ error, retry }: { error: ApiError; retry?: () => void }) {
  if (error.trouble === "unsaved") return <Unsaved retry={retry} />;
  const words = { gone: t("error.gone"), refused: t("error.refused"), "needs-server": t("error.needsServer") };
  return (
    <div class={`notice ${error.trouble === "needs-server" ? "" : "bad"}`} role="alert">
      <p>
        <strong>{words[error.trouble]}</strong> {error.message}
      </p>
      {error.trouble === "gone" && <p>{t("error.goneHint")}</p>}
      {retry && error.trouble !== "needs-server" && (
        <button type="button" onClick={retry}>
          {t("error.retry")}
        </button>
      )}
    </div>
  );
}

/** A run at its beginning: nothing is wrong. */
function Unsaved({ retry }: { retry?: () => void }) {
  return (
    <div class="empty" role="status">
      <p>{t("unsaved.words")}</p>
      <p>{t("unsaved.meanwhile")}</p>
      <button type="button" class="primary" onClick={() => go("training")}>
        {t("unsaved.toTraining")}
      </button>{" "}
      {retry && (
        <button type="button" onClick={retry}>
          {t("unsaved.again")}
        </button>
      )}
    </div>
  );
}

/** The value when it is here; before that, a quiet word; else the trouble. An older value stays while a new one loads. */
export function Loaded<T>(props: { of: Loadable<T>; retry?: () => void; children: (value: T) => ComponentChildren }) {
  const { of } = props;
  if (of.state === "error") return <Trouble error={of.error} retry={props.retry} />;
  if ("value" in of && of.value !== undefined)
    return <div aria-busy={of.state === "loading"}>{props.children(of.value)}</div>;
  return of.state === "loading" ? (
    <p class="loading" role="status">
      {t("loading")}
    </p>
  ) : null;
}
