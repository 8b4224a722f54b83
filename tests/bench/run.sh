#!/usr/bin/env bash
# Runs every benchmark and prints one table and JSON: run.sh BUILD_FOLDER [section...]
# Peers are installed here, pinned, into build/peers; set-up never installs them.
set -euo pipefail
build=$(realpath "$1")
shift
here=$(realpath "$(dirname "$0")")
peers=$here/../../build/peers
mkdir -p "$peers"
if ! cmp -s "$here/requirements.txt" "$peers/venv/requirements.txt"; then
    echo "installing the benchmark's peers (compiles llama.cpp, some minutes)"
    rm -rf "$peers/venv"
    python3 -m venv "$peers/venv"
    CMAKE_ARGS="-DGGML_NATIVE=ON" "$peers/venv/bin/pip" install --quiet \
        --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$peers/venv/requirements.txt"
fi
exec "$peers/venv/bin/python" "$here/run.py" "$build" "$peers" "$@"
