"""`pellucid serve`."""

from __future__ import annotations

import contextlib
import math
import re
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.common import engine_option, examples, say, search_config, search_options

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from pellucid.server.inspector import Inspector
    from pellucid.server.limits import Limits
    from pellucid.server.service import Service
    from pellucid.text.terms import Terms

PORT = 7878
PAIR = re.compile(r"([A-Za-z][\w-]*):([A-Za-z][\w-]*)=(.+)", re.DOTALL)


@click.command(
    "serve",
    epilog=examples(
        "pellucid serve model",
        "pellucid serve en-de de-en --port 5000",
        "pellucid serve en:de=runs/best --host 0.0.0.0 --api-key KEY",
        "curl http://127.0.0.1:7878/translate -d q='Two dogs run.' -d source=en -d target=de",
    ),
)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on: by default only this machine."
)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any that is free.")
@click.option(
    "--api-key",
    "keys",
    multiple=True,
    metavar="KEY",
    envvar="PELLUCID_API_KEYS",
    help="Answer only to who has this key; several times: any of them. Or in PELLUCID_API_KEYS, where `ps` does not show "
    "them, with spaces between.",
)
@click.option("--page/--no-page", default=None, help="The page at /. [unless there are keys: it asks for none]")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name besides localhost under which the page may be asked."
)
@click.option(
    "--allow-origin", multiple=True, metavar="URL", help="A site whose pages may use the API. [all: extensions need it]"
)
@click.option(
    "--proxy", "proxies", multiple=True, metavar="ADDRESS", help="A proxy whose X-Forwarded-For is to be believed."
)
@click.option(
    "--rate",
    type=click.IntRange(0),
    metavar="N",
    help="Texts a minute for each key or address; 0: any number. [6000, and any number from this machine]",
)
@click.option("--max-characters", type=click.IntRange(1), metavar="N", help="Of one text. [5000]")
@click.option("--max-texts", type=click.IntRange(1), metavar="N", help="In one request. [100]")
@click.option("--max-waiting", type=click.IntRange(1), metavar="N", help="Tokens that wait for a model. [50000]")
@click.option("--deadline", type=click.FloatRange(1), metavar="SECONDS", help="For one request. [60]")
@click.option("--compat", type=click.Choice(["weblate"]), help="Answer Weblate's trial from English to German.")
@click.option(
    "--glossary",
    "glossaries",
    multiple=True,
    metavar="FILE",
    help="Translations of terms that must be used: source, tab, target a line. en:de=FILE is for that pair alone.",
)
@click.option("--dnt", metavar="FILE", help="Terms that must not be translated, one a line.")
@click.option(
    "--tag", "tags", multiple=True, metavar="NAME", help="A tag of the models', such as a domain (repeatable)."
)
@click.option("--log-requests", is_flag=True, help="A line on stderr for each: route, status, time; never a text.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use.")
@engine_option
@search_options
def command(
    models: tuple[str, ...],
    host: str,
    port: int,
    keys: tuple[str, ...],
    page: bool | None,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    proxies: tuple[str, ...],
    rate: int | None,
    max_characters: int | None,
    max_texts: int | None,
    max_waiting: int | None,
    deadline: float | None,
    compat: str | None,
    glossaries: tuple[str, ...],
    dnt: str | None,
    tags: tuple[str, ...],
    log_requests: bool,
    open_page: bool,
    threads: int,
    engine: str,
    **search: object,
) -> None:
    """Translate for other programs, and open the page that shows a model at work.

    Programs ask as they ask LibreTranslate or DeepL; docs/serve.md has an example for each. The page has every head of
    every layer, the beam, the labs, training; a folder that is still in training shows its curves. Nothing leaves this
    machine. Ctrl-C ends it when what was asked has been answered.

    A MODEL is a folder; en:de=FOLDER says its languages where the folder does not. One with several target languages
    (`pellucid train --tag`) is served with all of them, or with the one that is named so.
    """
    from pellucid.server.limits import Limits

    given = {
        "characters": max_characters, "texts": max_texts, "waiting_tokens": max_waiting, "deadline": deadline,
        "rate": rate,
    }  # fmt: skip
    serve_models(
        models, host, port, keys=keys, page=page, allow_host=allow_host, allow_origin=allow_origin, proxies=proxies,
        limits=Limits(**{name: value for name, value in given.items() if value is not None}),  # type: ignore[arg-type]
        glossaries=glossaries, dnt=dnt, tags=tags, weblate=compat == "weblate", log_requests=log_requests, open_page=open_page, threads=threads, engine=engine,
        search=search,
    )  # fmt: skip


def serve_models(
    models: Sequence[str],
    host: str = "127.0.0.1",
    port: int = PORT,
    *,
    keys: Sequence[str] = (),
    page: bool | None = None,
    allow_host: Sequence[str] = (),
    allow_origin: Sequence[str] = (),
    proxies: Sequence[str] = (),
    limits: Limits | None = None,
    glossaries: Sequence[str] = (),
    dnt: str | None = None,
    tags: Sequence[str] = (),
    weblate: bool = False,
    log_requests: bool = False,
    open_page: bool = False,
    threads: int = 0,
    engine: str = "auto",
    search: dict[str, object] | None = None,
) -> None:
    """Serve until somebody ends it."""
    from pellucid.errors import PellucidError

    try:
        import python_multipart  # noqa: F401, asked for by starlette when the first form comes
        import uvicorn

        from pellucid.server.app import make_app
        from pellucid.server.endpoint import Doorman
        from pellucid.server.limits import Keys, Limits
        from pellucid.server.page import make_page
    except ImportError as error:
        if error.name not in ("uvicorn", "starlette", "python_multipart"):
            raise
        raise PellucidError(
            "serving needs starlette, uvicorn and python-multipart", hint="pip install 'pellucid[serve]'"
        ) from None

    limits = limits or Limits()
    terms = _Glossaries(glossaries, dnt)
    inspectors, service = _service(models, limits, weblate, threads, engine, search or {}, terms, tags)
    with_page = not keys if page is None else page
    doorman = Doorman(service, Keys(keys), proxies)
    app = make_app(
        service, doorman, make_page(inspectors, allow_host) if with_page else None, allow_origin or ("*",)
    )  # fmt: skip
    listening = _listening(host, port)
    _announce(host, listening.getsockname()[1], service, bool(keys), with_page, open_page)
    if log_requests:
        _log_to_stderr()
    server = uvicorn.Server(_uvicorn_config(app, limits))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    say("ended")


def _service(
    models: Sequence[str],
    limits: Limits,
    weblate: bool,
    threads: int,
    engine: str,
    search: dict[str, object],
    glossaries: _Glossaries,
    tags: Sequence[str] = (),
) -> tuple[dict[str, Inspector], Service]:
    """What the page asks about each model, by name; and the service of those whose languages are known."""
    from pellucid.errors import ConfigError
    from pellucid.server.languages import canonical
    from pellucid.server.service import Served, Service, names_of

    opened = [one for model in models for one in _opened(model, threads, engine, tags)]
    names = names_of([name for name, _, _ in opened])
    inspectors = {name: inspector for name, (_, inspector, _) in zip(names, opened, strict=True)}
    served = []
    for name, (_, inspector, pair) in zip(names, opened, strict=True):
        if pair is None:
            say(
                f"note: {inspector.directory} does not say its languages, so programs cannot ask for them\n"
                f"hint: pellucid serve en:de={inspector.directory}"
            )
            continue
        source, target = map(canonical, pair)
        if source is None or target is None:
            raise ConfigError(f"{':'.join(pair)} must be two codes of languages, like en:de")
        changed, terms = (lambda config: search_config(config, search)), glossaries.take(source, target)
        served.append(Served(name, inspector, source, target, limits, changed, terms))
    glossaries.check()
    return inspectors, Service(served, limits, weblate=weblate)


def _opened(
    model: str, threads: int, engine: str, tags: Sequence[str]
) -> list[tuple[str, Inspector, tuple[str, str] | None]]:
    """What is to be served of a MODEL: a name, who is asked, the languages if they are known; one a target language."""
    from pellucid.server.inspector import Inspector, languages_of

    match = PAIR.fullmatch(model)
    directory = Path(match[3] if match else model)
    name = directory.resolve().name
    source, targets = languages_of(directory)
    several = len(targets) > 1
    to = (match[2] if match else targets[0]) if several else None
    first = Inspector(directory, engine=engine, threads=threads, to=to, tags=tags)
    if match:
        return [(name, first, (match[1], match[2]))]
    pairs = [(source, target) if source else None for target in targets]
    if not several:
        return [(name, first, pairs[0] if pairs else None)]
    each = [first, *(first.into(target) for target in targets[1:])]
    return [(f"{name}-{t}", one, pair) for t, one, pair in zip(targets, each, pairs, strict=True)]


class _Glossaries:
    """Which terms are for which pair of languages."""

    def __init__(self, files: Sequence[str], dnt: str | None) -> None:
        from pellucid.server.languages import canonical

        self._dnt = dnt
        self._files: dict[tuple[str | None, str | None] | None, str] = {}
        for file in files:
            match = PAIR.fullmatch(file)
            self._files[(canonical(match[1]), canonical(match[2])) if match else None] = match[3] if match else file
        self._unused = {pair: file for pair, file in self._files.items() if pair}

    def take(self, source: str, target: str) -> Terms | None:
        """Those for this pair, of its own glossary or else the one for all.

        Raises:
            DataError: a file that cannot be read.
        """
        from pellucid.text.terms import Terms

        self._unused.pop((source, target), None)
        return Terms.read(self._files.get((source, target), self._files.get(None)), self._dnt) or None

    def check(self) -> None:
        """Nothing, if every glossary has its model.

        Raises:
            ConfigError: one has none.
        """
        from pellucid.errors import ConfigError

        for file in self._unused.values():
            raise ConfigError(f"{file} must be for languages that a model translates, but none does")


def _announce(host: str, port: int, service: Service, keys: bool, page: bool, open_page: bool) -> None:
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address if host not in ('0.0.0.0', '::') else 'localhost'}:{port}"
    pairs = ", ".join(f"{source} to {target}" for source, target in service.models) or "nothing yet"
    say(f"translating {pairs} at {url}/translate" + (f"; look at {url}/" if page else "") + " (Ctrl-C ends)")
    if host not in ("127.0.0.1", "localhost", "::1") and not keys:
        say("note: other machines can reach it too, and it asks nobody for a key\nhint: --api-key KEY")
    if open_page and page:
        webbrowser.open(f"{url}/")


def _uvicorn_config(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """How uvicorn is to run: what has been asked is answered before it ends, and nobody's headers are believed."""
    import uvicorn

    from pellucid.server.protocol import Protocol

    return uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, proxy_headers=False, lifespan="on",
        http=Protocol, ws="none", h11_max_incomplete_event_size=64 * 1024,
        timeout_graceful_shutdown=math.ceil(limits.deadline),
    )  # fmt: skip


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("pellucid.server.endpoint").setLevel(logging.INFO)


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        PellucidError: it cannot, mostly because another program does.
    """
    from pellucid.errors import PellucidError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then does asyncio switch Nagle's algorithm off, which makes each answer 40 ms late.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise PellucidError(
            f"cannot listen on {host}, port {port}: {reason}", hint="--port 0 takes a free one"
        ) from None
    return listening
