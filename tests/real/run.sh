#!/usr/bin/env bash
# Compares the real model with its reference: run.sh KVFERRY_BINARY SOURCE_FOLDER
# Makes the model's folder first, and the stubs.
set -euo pipefail
binary=$(realpath "$1") source=$(realpath "$2")
here=$source/tests/real
model=$source/build/models/smollm2-135m-instruct
tools=$source/build/foreign

python3 -B "$here/smollm2.py" "$model"
"$source/tests/interop/tools.sh" "$source" "$tools"
PYTHONPATH=$tools/stubs:$source/tests/roles \
    "$tools/venv/bin/python" -B "$here/real_model.py" "$binary" "$model"
