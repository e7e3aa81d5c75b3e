"""`pellucid serve`."""

from __future__ import annotations

import contextlib
import socket
import webbrowser

import click

from pellucid.cli.common import engine_option, examples, say

PORT = 7878


@click.command(
    "serve",
    epilog=examples("pellucid serve model", "pellucid serve model --port 8000 --open"),
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on: by default only this machine."
)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any that is free.")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name besides localhost under which it may be asked."
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use.")
@engine_option
def command(
    model: str, host: str, port: int, allow_host: tuple[str, ...], open_page: bool, threads: int, engine: str
) -> None:
    """Open the page that shows a model at work: every head of every layer, the beam, the labs, training.

    Nothing leaves this machine. Ctrl-C ends it. A folder that is still in training shows its curves.
    """
    serve_model(model, host, port, allow_host, open_page, threads, engine)


def serve_model(
    model: str,
    host: str = "127.0.0.1",
    port: int = PORT,
    allow_host: tuple[str, ...] = (),
    open_page: bool = False,
    threads: int = 0,
    engine: str = "auto",
) -> None:
    """Serve until somebody ends it."""
    from pellucid.errors import PellucidError

    try:
        import uvicorn

        from pellucid.server.app import make_app
        from pellucid.server.inspector import Inspector
    except ImportError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        raise PellucidError("the page needs starlette and uvicorn", hint="pip install 'pellucid[serve]'") from None

    app = make_app(Inspector(model, engine=engine, threads=threads), allow_host)
    listening = _listening(host, port)
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address if host not in ('0.0.0.0', '::') else 'localhost'}:{listening.getsockname()[1]}/"
    say(f"{model}: look at {url} (Ctrl-C ends)")
    if host not in ("127.0.0.1", "localhost", "::1"):
        say("note: other machines can reach it too; it asks nobody for a password")
    if open_page:
        webbrowser.open(url)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
    say("ended")


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        PellucidError: it cannot, mostly because another program does.
    """
    from pellucid.errors import PellucidError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
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
