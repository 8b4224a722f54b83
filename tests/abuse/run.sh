#!/usr/bin/env bash
# Runs the attacks: run.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER [arguments of abuse.py]
set -euo pipefail
binary=$1 source=$2 tools=$3
"$source/tests/interop/tools.sh" "$source" "$tools"
export PYTHONPATH=$tools/stubs:$source/tests/roles
exec "$tools/venv/bin/python" -B "$source/tests/abuse/abuse.py" "$binary" "$source/model/demo" "${@:4}"
