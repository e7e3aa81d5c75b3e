#!/bin/sh
# Build the page into a folder of its own and compare it with the one that is committed.
set -eu
cd "$(dirname "$0")/../web"
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npx vite build --outDir "$built" --logLevel warn
if ! diff -r "$built" ../src/pellucid/server/static >/dev/null; then
    echo "error: src/pellucid/server/static is not what web/ makes" >&2
    echo "hint: make web" >&2
    exit 1
fi
echo "the page is what its source makes"
