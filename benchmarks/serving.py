"""How much of the engine's speed do programs get that ask `pellucid serve`? And a plain Flask loop, beside it.

    engine, 8 at a time     Translator.translate for 8 lines after the other: as many as 8 clients can have waiting
    engine, in bulk         Translator.translate for all lines together: the best that batches can do
    serve, 1 client         one that asks for a line, waits, asks for the next
    serve, 8 clients        eight of them at once, a line each
    serve, 8 clients x 20   eight that ask for 20 lines at once, as Weblate does
    flask, 1 client         a Flask application that calls Translator.translate for each request, in Flask's own
    flask, 8 clients        server with a thread a request; if Flask can be imported (--flask names a folder with it)

All run on the same lines in turns, so that whatever else the machine does falls on all; figures are medians over the
rounds. Meanwhile /health is asked twenty times a second, and says how soon a server that is busy answers.

With --bad the server gets that many bad requests (made up, seeded) instead: all must be refused with a status of 4xx and
a JSON error, while every good request in between is answered as before, and memory stays.
With --memory it gets that many good ones, and its memory is looked at on the way.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
LANGUAGES = ("en", "de")


# --- servers, each a process of its own ----------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """A process that answers on `port`."""

    def __init__(self, command: Sequence[str], port: int, path: str = "") -> None:
        self.port = port
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
        assert self.process.stderr is not None
        self.log: list[bytes] = []
        self._reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr or ()), daemon=True)
        self._reader.start()
        for _ in range(600):
            with suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/ready")[0] == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        raise SystemExit(f"the server did not start:\n{b''.join(self.log).decode()}")

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def memory(self) -> float:
        """Megabytes that are resident."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        if self.process.stderr is not None:
            self.process.stderr.close()


def pellucid_server(args: argparse.Namespace, *options: str) -> Server:
    port = free_port()
    model = f"{LANGUAGES[0]}:{LANGUAGES[1]}={args.model}"
    command = [sys.executable, "-m", "pellucid", "serve", model, "--port", str(port), "--no-page", *options]
    return Server([*command, "--engine", args.engine, "--threads", str(args.threads)], port)


def flask_server(args: argparse.Namespace) -> Server:
    port = free_port()
    command = [sys.executable, str(HERE), args.model, "--engine", args.engine, "--threads", str(args.threads)]
    return Server([*command, "--be-flask", str(port)], port, args.flask)


def be_flask(args: argparse.Namespace) -> None:
    from flask import Flask, request

    from pellucid.translator import Translator

    app = Flask("plain")
    translator = Translator.load(args.model, device="cpu", engine=args.engine, threads=args.threads)
    translator.translate(["."])

    @app.get("/ready")
    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    def translate() -> dict[str, Any]:
        q = request.get_json()["q"]
        found = [t.text for t in translator.translate([q] if isinstance(q, str) else q)]
        return {"translatedText": found[0] if isinstance(q, str) else found}

    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app.run(port=args.be_flask, threaded=True)


# --- clients ---------------------------------------------------------------------------------------------------------


def clients(port: int, lines: Sequence[str], number: int, together: int) -> tuple[float, list[float], list[str]]:
    """Lines a second, the seconds of each request, and the translations: `number` clients, `together` lines a request."""
    parts = [lines[i : i + together] for i in range(0, len(lines), together)]
    waiting = iter(enumerate(parts))
    lock = threading.Lock()
    found: list[Any] = [None] * len(parts)
    seconds: list[float] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.connect()
        assert connection.sock is not None
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            with lock:
                item = next(waiting, None)
            if item is None:
                break
            i, part = item
            body = {"q": part[0] if together == 1 else list(part), "source": LANGUAGES[0], "target": LANGUAGES[1]}
            started = time.perf_counter()
            connection.request("POST", "/translate", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            told = json.loads(answer.read())
            assert answer.status == 200, told
            seconds.append(time.perf_counter() - started)
            found[i] = [told["translatedText"]] if together == 1 else told["translatedText"]
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(number)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(lines) / (time.perf_counter() - started), seconds, [text for some in found for text in some]


@contextmanager
def health_asked(port: int, seconds: list[float]):  # type: ignore[no-untyped-def]
    """While it is open, /health is asked every 50 ms."""
    done = threading.Event()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while not done.wait(0.05):
            started = time.perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            seconds.append(time.perf_counter() - started)
        connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


# --- what is measured ------------------------------------------------------------------------------------------------


def speed(args: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    from pellucid.server.translating import Manner, translate
    from pellucid.translator import Translator

    translator = Translator.load(args.model, device="cpu", engine=args.engine, threads=args.threads)
    # What the server says of a text: placeholders kept, loops searched anew.
    served = [answer.text for answer in translate(translator, lines, Manner(), translator.loaded.search)]
    plain = [translation.text for translation in translator.translate(lines)]
    server = pellucid_server(args, "--rate", "0")
    servers = [server]
    rates: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    health: dict[str, list[float]] = {"serve": [], "flask": []}

    def engine(size: int) -> Callable[[], float]:
        def run() -> float:
            started = time.perf_counter()
            for i in range(0, len(lines), size):
                translator.translate(lines[i : i + size])
            return len(lines) / (time.perf_counter() - started)

        return run

    def asked(name: str, which: Server, number: int, together: int = 1) -> Callable[[], float]:
        some = lines if number > 1 else lines[: max(1, len(lines) // 4)]

        def run() -> float:
            with health_asked(which.port, health[name.partition(",")[0]]):
                rate, took, found = clients(which.port, some, number, together)
            seconds.setdefault(name, []).extend(took)
            expected = served if which is server else plain
            wrong = sum(a != b for a, b in zip(found, expected, strict=False))
            assert not wrong, f"{name}: {wrong} translations differ from the engine's"
            return rate

        return run

    measures: dict[str, Callable[[], float]] = {
        "engine, 1 at a time": engine(1),
        "engine, 8 at a time": engine(8),
        "engine, in bulk": engine(len(lines)),
        "serve, 1 client": asked("serve, 1 client", server, 1),
        "serve, 8 clients": asked("serve, 8 clients", server, 8),
        "serve, 8 clients x 20": asked("serve, 8 clients x 20", server, 8, 20),
    }
    try:
        if args.flask is not None:
            peer = flask_server(args)
            servers.append(peer)
            measures["flask, 1 client"] = asked("flask, 1 client", peer, 1)
            measures["flask, 8 clients"] = asked("flask, 8 clients", peer, 8)
        for round_number in range(args.rounds + 1):
            for name, measure in measures.items():
                rate = measure()
                if round_number:  # the first warms up
                    rates.setdefault(name, []).append(rate)
    finally:
        for one in servers:
            one.stop()

    def ratio(a: str, b: str) -> float:
        return statistics.median(x / y for x, y in zip(rates[a], rates[b], strict=True))

    return {
        "lines": len(lines),
        "rounds": args.rounds,
        "lines_a_second": {name: [round(r, 1) for r in some] for name, some in rates.items()},
        "p50_ms": {name: round(1000 * percentile(some, 0.5), 1) for name, some in seconds.items()},
        "p95_ms": {name: round(1000 * percentile(some, 0.95), 1) for name, some in seconds.items()},
        "health_p99_ms": {name: round(1000 * percentile(some, 0.99), 1) for name, some in health.items() if some},
        "ratios": {
            f"{a} / {b}": round(ratio(a, b), 3)
            for a, b in (
                ("serve, 8 clients", "engine, 8 at a time"),
                ("serve, 8 clients", "engine, in bulk"),
                ("serve, 8 clients x 20", "engine, in bulk"),
                ("serve, 8 clients", "serve, 1 client"),
                ("serve, 8 clients x 20", "serve, 1 client"),
                ("engine, 8 at a time", "engine, 1 at a time"),
                ("serve, 8 clients", "flask, 8 clients"),
            )
            if a in rates and b in rates
        },
    }


def bad_input(args: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Bad requests, a good one after each fifty."""
    from bad_requests import bad_requests

    server = pellucid_server(args, "--rate", "0")
    statuses: dict[int, int] = {}
    wrong: list[str] = []
    memory: list[float] = []
    try:
        (expected,) = clients(server.port, lines[:1], 1, 1)[2]
        for i, (head, body) in enumerate(bad_requests(args.bad), start=1):
            status, content = said(server.port, head + body)
            statuses[status] = statuses.get(status, 0) + 1
            try:
                is_error = set(json.loads(content)) in ({"error"}, {"message"})
            except ValueError:
                is_error = False
            if not (400 <= status < 500 and is_error):
                wrong.append(f"{status} for {head[:80]!r} {body[:80]!r}")
            if i % 50 == 0 or i == args.bad:
                assert clients(server.port, lines[:1], 1, 1)[2] == [expected], "a good request was answered otherwise"
                memory.append(server.memory())
    finally:
        server.stop()
    return {"requests": args.bad, "statuses": statuses, "wrong": wrong, **flat(memory)}


def good_input(args: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Good requests by eight clients, and memory on the way."""
    server = pellucid_server(args, "--rate", "0")
    memory: list[float] = []
    try:
        for first in range(0, args.memory, 100):
            some = [lines[i % len(lines)] for i in range(first, min(args.memory, first + 100))]
            clients(server.port, some, 8, 1)
            memory.append(server.memory())
    finally:
        server.stop()
    return {"requests": args.memory, **flat(memory)}


def said(port: int, sent: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(sent)
        with http.client.HTTPResponse(connection) as answer:
            answer.begin()
            return answer.status, answer.read()


def flat(memory: Sequence[float]) -> dict[str, Any]:
    """Megabytes on the way, and how far they went from those after a fifth of it."""
    later = memory[len(memory) // 5 :]
    return {
        "megabytes": [round(m) for m in memory],
        "lowest": round(min(later) / later[0] - 1, 4),
        "highest": round(max(later) / later[0] - 1, 4),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--src", type=Path, help="text to translate, a line each")
    parser.add_argument("--lines", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--flask", metavar="FOLDER", help="where Flask is installed; '' if it can be imported as it is")
    parser.add_argument("--bad", type=int, metavar="N", help="send so many bad requests")
    parser.add_argument("--memory", type=int, metavar="N", help="send so many good ones")
    parser.add_argument("--be-flask", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args(arguments)
    if args.be_flask is not None:
        be_flask(args)
        return
    lines = [line.strip() for line in args.src.read_text(encoding="utf-8").split("\n") if line.strip()][: args.lines]
    measure = bad_input if args.bad else good_input if args.memory else speed
    found = measure(args, lines)
    print(json.dumps(found, indent=1))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
