#!/usr/bin/env bash
# attention_test.py with PyTorch as the formula, pinned in TOOLS_FOLDER/pytorch, some gigabytes:
#
#     pytorch.sh TOOLS_FOLDER LIBRARY INCLUDE_FOLDER
set -euo pipefail
tools=$1
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$tools"
exec 8>"$tools/pytorch.lock"
flock 8
if ! cmp -s "$here/requirements.txt" "$tools/pytorch/requirements.txt"; then
    rm -rf "$tools/pytorch"
    python3 -m venv "$tools/pytorch"
    "$tools/pytorch/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$tools/pytorch/requirements.txt"
fi
exec "$tools/pytorch/bin/python" -B "$here/attention_test.py" "$2" "$3" --pytorch
