import type { ComponentChildren, JSX } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { ApiError, askedModel, askModel, embedded } from "./api";
import { Icon } from "./components/Icon";
import { Trouble } from "./components/Loaded";
import { lang, setLanguage, t } from "./i18n";
import { go, hashOf, route, VIEWS, type View } from "./router";
import { model, modelNames, modelValue, start } from "./state";
import { isDark, setTheme } from "./theme";
import { Heads } from "./views/Heads";
import { Labs } from "./views/Labs";
import { Model } from "./views/Model";
import { Positions } from "./views/Positions";
import { Training } from "./views/Training";
import { Translate } from "./views/Translate";

const PAGES: Record<View, () => JSX.Element> = {
  translate: Translate,
  positions: Positions,
  model: Model,
  heads: Heads,
  labs: Labs,
  training: Training,
};

/** Views that show nothing without a model; a run that has not saved one yet has its curves, and labs need none. */
const OF_A_MODEL = new Set<View>(["translate", "positions", "model", "heads"]);

export function App() {
  const { view } = route.value;
  const Page = PAGES[view];
  useEffect(() => void (document.title = `${t(`view.${view}`)} – pellucid`), [view, lang.value]);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault(); // the address holds the view
          document.getElementById("main")?.focus();
        }}
      >
        {t("skip")}
      </a>
      <Header view={view} />
      <main id="main" tabIndex={-1}>
        <h1 class={view === "labs" && route.value.rest ? "unseen" : ""}>{t(`view.${view}`)}</h1>
        {model.value.state === "error" && OF_A_MODEL.has(view) ? (
          <Trouble error={model.value.error} retry={() => void start()} />
        ) : (
          <Guarded key={view}>
            <Page />
          </Guarded>
        )}
      </main>
      <footer>
        <p>{t("footer")}</p>
        <p>
          {`pellucid ${modelValue.value?.version ?? ""}`.trim()} · MIT
        </p>
      </footer>
    </>
  );
}

/** A fault of ours in one view leaves the others usable. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [fault, reset] = useErrorBoundary((error) => console.error(error));
  return fault ? <Trouble error={new ApiError("refused", String(fault.message ?? fault))} retry={reset} /> : <>{children}</>;
}

function Header({ view }: { view: View }) {
  const info = modelValue.value;
  const other = lang.value === "en" ? "zh" : "en";
  return (
    <header>
      <p class="brand">
        pellucid
        {modelNames.value.length > 1 ? (
          <select
            aria-label={t("models")}
            value={askedModel || modelNames.value[0]}
            onChange={(event) => askModel(event.currentTarget.value)}
          >
            {modelNames.value.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        ) : (
          info && <small>{info.name}</small>
        )}
        {info && (
          <small>
            {info.sourceLanguage && info.targetLanguage && `${info.sourceLanguage} → ${info.targetLanguage}`}
          </small>
        )}
      </p>
      <nav aria-label={t("views")}>
        {VIEWS.map((name) => (
          <a
            key={name}
            href={hashOf(name)}
            aria-current={name === view ? "page" : undefined}
            onClick={(event) => {
              if (event.ctrlKey || event.metaKey || event.shiftKey) return;
              event.preventDefault();
              go(name);
            }}
          >
            {t(`view.${name}`)}
          </a>
        ))}
      </nav>
      <div class="wishes">
        {embedded && <span class="flag">{t("embedded")}</span>}
        <button type="button" class="quiet" lang={other === "zh" ? "zh-Hans" : "en"} onClick={() => setLanguage(other)}>
          {other === "zh" ? "简体中文" : "English"}
        </button>
        <button
          type="button"
          class="quiet"
          aria-pressed={isDark.value}
          aria-label={t("theme.dark")}
          title={t("theme.dark")}
          onClick={() => setTheme(isDark.value ? "light" : "dark")}
        >
          <Icon name={isDark.value ? "moon" : "sun"} />
        </button>
      </div>
    </header>
  );
}
