"""What the server counts, as Prometheus reads it. Nothing that a user wrote is in it, and no address or key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """How many observations were at most so large."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        place = next((i for i, bound in enumerate(self._bounds) if value <= bound), len(self._bounds))
        self._counts[place] += 1
        self._sum += value

    def lines(self, name: str) -> Iterable[str]:
        """The lines of the text format."""
        total = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """Requests by route and status, texts and characters by pair of languages, seconds."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.texts: Counter[tuple[str, str]] = Counter()
        self.characters: Counter[tuple[str, str]] = Counter()
        self.seconds = Histogram()

    def request(self, route: str, status: int, seconds: float) -> None:
        """One answer. `route` is one of the server's own, never what a client made up."""
        self.requests[route, status] += 1
        self.seconds.observe(seconds)

    def translated(self, source: str, target: str, texts: Sequence[str]) -> None:
        """What was asked for."""
        self.texts[source, target] += len(texts)
        self.characters[source, target] += sum(map(len, texts))

    def text(self, gauges: Iterable[tuple[str, str, str, float]] = ()) -> str:
        """All of it.

        Args:
            gauges: name, kind (gauge or counter), model, value: what the models count.
        """
        lines = ["# TYPE pellucid_requests_total counter"]
        for (route, status), count in sorted(self.requests.items()):
            lines.append(f'pellucid_requests_total{{route="{route}",status="{status}"}} {count}')
        for name, counter in (("texts", self.texts), ("characters", self.characters)):
            lines.append(f"# TYPE pellucid_{name}_total counter")
            for (source, target), count in sorted(counter.items()):
                lines.append(f'pellucid_{name}_total{{source="{source}",target="{target}"}} {count}')
        lines += ["# TYPE pellucid_request_seconds histogram", *self.seconds.lines("pellucid_request_seconds")]
        before = ""
        for name, kind, model, value in sorted(gauges):
            if name != before:
                lines.append(f"# TYPE {name} {kind}")
                before = name
            lines.append(f'{name}{{model="{model}"}} {value:g}')
        return "\n".join(lines) + "\n"
