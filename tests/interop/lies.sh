#!/usr/bin/env bash
# Tells the lies: lies.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER [arguments of lies_of_every_field.py]
set -euo pipefail
binary=$1 source=$2 tools=$3
"$source/tests/interop/tools.sh" "$source" "$tools"
export PYTHONPATH=$tools/stubs:$source/tests/roles
exec "$tools/venv/bin/python" -B "$source/tests/interop/lies_of_every_field.py" "$binary" "$source/model/demo" "${@:4}"
