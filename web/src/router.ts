// The view is in the address (`#/translate?kind=cross&layer=3&head=5`): a reload and a link keep it.
import { signal } from "@preact/signals";

export const VIEWS = ["translate", "positions", "model", "heads", "labs", "training"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  rest: string;
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, ...rest] = path.split("/");
  return {
    view: VIEWS.find((name) => name === view) ?? "translate",
    rest: decodeURIComponent(rest.join("/")),
    query: new URLSearchParams(query),
  };
}

export function hashOf(view: View, rest = "", query = new URLSearchParams()): string {
  const words = query.toString();
  return `#/${view}${rest && `/${encodeURIComponent(rest)}`}${words && `?${words}`}`;
}

export const route = signal<Route>(parseRoute(globalThis.location?.hash ?? ""));

function write(hash: string, replace: boolean): void {
  route.value = parseRoute(hash);
  try {
    if (replace) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
  } catch {
    // A notebook's frame (about:srcdoc) has no address of its own.
  }
}

export function go(view: View, rest = "", query?: URLSearchParams): void {
  write(hashOf(view, rest, query), false);
}

/** Changes what the address says of the present view, without a step for the back button. */
export function note(values: Record<string, string | null>): void {
  const { view, rest, query } = route.peek();
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  if (next.toString() !== query.toString()) write(hashOf(view, rest, next), true);
}

/** Calls `then` when the reader changes the address: a link, the back button. */
export function onAddress(then: (route: Route) => void): void {
  const follow = () => {
    route.value = parseRoute(location.hash);
    then(route.value);
  };
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);
}
