// A value on its way: loading, here, or the reason why not.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";

export type Loadable<T> =
  | { state: "idle" }
  | { state: "loading"; value?: T }
  | { state: "ready"; value: T }
  | { state: "error"; error: ApiError };

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError("refused", error instanceof Error ? error.message : String(error));
}

/** Loads again when `key` changes (null: not yet); an answer that comes too late is dropped. */
export function useLoad<T>(key: string | null, load: () => Promise<T>): [Loadable<T>, () => void] {
  const [result, setResult] = useState<Loadable<T>>({ state: "idle" });
  const turn = useRef(0);
  const start = useCallback(() => {
    const mine = ++turn.current;
    if (key === null) return setResult({ state: "idle" });
    setResult((before) => ({ state: "loading", value: "value" in before ? before.value : undefined }));
    load().then(
      (value) => mine === turn.current && setResult({ state: "ready", value }),
      (error) => mine === turn.current && setResult({ state: "error", error: asApiError(error) }),
    );
  }, [key]);
  useEffect(start, [start]);
  return [result, start];
}
