"""`pellucid` and `python -m pellucid`: errors become one line, a hint and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from pellucid.errors import PellucidError


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted, 141 nobody reads any more."""
    from pellucid.cli.main import cli

    # Text in and out is UTF-8 whatever the locale says; a file name that is not stays the bytes that it was.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=errors)
    try:
        code = cli.main(prog_name="pellucid", standalone_mode=False)
        sys.stdout.flush()  # what goes wrong with the last lines should be said here, and not while Python shuts down
        sys.exit(code if isinstance(code, int) else 0)
    except PellucidError as error:
        _stop(str(error), error.hint, error.exit_code)
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # of newer clicks: `pellucid` alone
            error.show()
            sys.exit(error.exit_code)
        message = error.message if getattr(error, "possibilities", None) else error.format_message()
        _stop(message[:1].lower() + message[1:], _hint(error), error.exit_code)  # click's begin with a capital
    except (KeyboardInterrupt, click.Abort):
        _stop("interrupted", None, 130)
    except BrokenPipeError:
        _close_stdout()  # whoever read our output has had enough (`| head`)
        sys.exit(141)
    except OSError as error:
        if error.errno is None:
            raise
        _close_stdout()
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        _stop(f"{name}{error.strerror}", None, 1)


def _hint(error: click.ClickException) -> str | None:
    possibilities = getattr(error, "possibilities", None)
    if possibilities:
        return "did you mean " + " or ".join(f"`{p}`" for p in possibilities) + "?"
    context = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context is not None else None


def _stop(message: str, hint: str | None, code: int) -> None:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(code)


def _close_stdout() -> None:
    """What is still waiting to be written goes nowhere; Python would complain about it once more on its way out."""
    with contextlib.suppress(OSError):  # a standard output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
