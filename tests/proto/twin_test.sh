#!/usr/bin/env bash
# Runs twin_test.py: twin_test.sh TWIN_PEER SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
peer=$1 source=$2 tools=$3
"$source/tests/interop/tools.sh" "$source" "$tools"
PYTHONPATH=$tools/stubs "$tools/venv/bin/python" "$source/tests/proto/twin_test.py" "$peer"
