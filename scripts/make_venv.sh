#!/bin/sh
# Make the virtual environment $1 with the versions of requirements.lock and this package in it.
# PYTHON=... chooses the interpreter; otherwise the first that runs and is 3.11 or newer.
set -eu
venv=$1
ok() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; }
works() { [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }
if ! works; then
    found=
    for python in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python; do
        if ok "$python"; then
            found=$python
            echo "making $venv with $("$python" --version)"
            rm -rf "$venv"
            if "$python" -m venv "$venv" && works; then break; fi
        fi
    done
    if ! works; then
        if [ -n "$found" ]; then
            echo "error: $found cannot make an environment" >&2
            echo "hint: on Debian and Ubuntu, apt-get install python3-venv" >&2
        else
            echo "error: Python 3.11 or newer is needed, and none was found" >&2
            echo "hint: make setup PYTHON=/path/to/python3.11" >&2
        fi
        exit 1
    fi
fi
pip="$venv/bin/python -m pip --disable-pip-version-check"
# torch by itself first: what asks for `torch` later then finds it there, and fetches no other build of it.
torch=$(grep '^torch==' requirements.lock)
echo "installing $torch (some hundred MB; a minute or two)"
$pip install --quiet "$torch"
echo "installing the rest"
$pip install --quiet --requirement requirements.lock
$pip install --quiet --no-deps --no-build-isolation --editable .
"$venv/bin/pellucid" --version
