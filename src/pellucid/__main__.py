"""`pellucid` and `python -m pellucid`: errors become one line and an exit code."""

from __future__ import annotations

import os
import sys

from pellucid.errors import PellucidError


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted."""
    from pellucid.cli.main import cli

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")  # whatever the locale says: text in and out is UTF-8
    try:
        sys.exit(cli.main(prog_name="pellucid", standalone_mode=True))
    except PellucidError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has had enough (`| head`). Python would complain once more while shutting down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
