#!/usr/bin/env bash
# grpcio and what speaks with it, pinned, in TOOLS_FOLDER/venv: venv.sh TOOLS_FOLDER. What is there already is kept;
# callers may run at once.
set -euo pipefail
tools=$1
wanted=$(dirname "$0")/requirements.txt

mkdir -p "$tools"
exec 8>"$tools/venv.lock"
flock 8
cmp -s "$wanted" "$tools/venv/requirements.txt" && exit
rm -rf "$tools/venv"
python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$tools/venv/requirements.txt"
