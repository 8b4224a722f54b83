#!/usr/bin/env bash
# stubs.sh SOURCE_FOLDER TOOLS_FOLDER: makes TOOLS_FOLDER/venv (grpcio and what goes with it, pinned)
# and TOOLS_FOLDER/stubs (Python, from proto/)
set -euo pipefail
shopt -s globstar
source=$1 tools=$2
requirements=$source/tests/interop/requirements.txt

mkdir -p "$tools"
if ! cmp -s "$requirements" "$tools/venv/requirements.txt"; then
    rm -rf "$tools/venv"
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$tools/venv/requirements.txt"
fi

stubs=$tools/stubs
rm -rf "$stubs" && mkdir -p "$stubs"
(cd "$source/proto" && "$tools/venv/bin/python" -m grpc_tools.protoc -I. \
    --python_out="$stubs" --grpc_python_out="$stubs" kvferry/**/*.proto)
