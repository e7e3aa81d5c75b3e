"""A server of a small model in this process, on a port of its own, asked through real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from pellucid.cli.serve import _Glossaries, _listening, _service, _uvicorn_config
from pellucid.server.app import make_app
from pellucid.server.endpoint import Doorman
from pellucid.server.inspector import Inspector
from pellucid.server.limits import Keys, Limits
from pellucid.server.page import make_page
from pellucid.server.service import Service
from pellucid.training.run import train
from training.conftest import tiny, write_reversals


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    def __init__(self, port: int, inspector: Inspector, service: Service) -> None:
        self.port, self.inspector, self.service = port, inspector, service
        self.url = f"http://127.0.0.1:{port}"

    def ask(
        self, path: str, body: Any = None, *, headers: dict[str, str] | None = None, method: str | None = None
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(f"{self.url}{path}", data, {**given, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())


def trained(folder: Path, updates: int = 40) -> Path:
    """A model folder with its training run: it has learnt to write letters in reverse order, a little."""
    config = tiny(batch_tokens=600, warmup_steps=60, peak_rate=0.005, max_updates=updates, validate_bleu=False)
    train([str(write_reversals(folder / "pairs.tsv", 300))], out=folder / "model", config=config)
    return folder / "model"


@contextmanager
def serving(
    *models: str | Path,
    limits: Limits | None = None,
    keys: Sequence[str] = (),
    proxies: Sequence[str] = (),
    origins: Sequence[str] = ("*",),
    page: bool = True,
    weblate: bool = False,
    glossaries: Sequence[str] = (),
    dnt: str | None = None,
    tags: Sequence[str] = (),
) -> Iterator[Client]:
    """A server as `pellucid serve MODEL...` makes it, ready when this is entered."""
    limits = limits or Limits()
    inspectors, service = _service(
        [str(model) for model in models], limits, weblate, 1, "torch", {}, _Glossaries(glossaries, dnt), tags
    )
    page_app = make_page(inspectors, ["named.example"]) if page else None
    app = make_app(service, Doorman(service, Keys(keys), proxies), page_app, origins)
    listening = _listening("127.0.0.1", 0)
    server = uvicorn.Server(_uvicorn_config(app, limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not (server.started and (service.ready or any(model.failed for model in service.models.values()))):
        time.sleep(0.01)
    try:
        yield Client(listening.getsockname()[1], next(iter(inspectors.values())), service)
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


def raw(client: Client, sent: bytes) -> Answer:
    """The answer to bytes of one's own making."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        connection.sendall(sent)
        return received(connection)


def received(connection: socket.socket) -> Answer:
    """The answer that comes through a socket."""
    with http.client.HTTPResponse(connection) as response:
        response.begin()
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, response.read())


def resident_megabytes() -> float:
    """Memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError
