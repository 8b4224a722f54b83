#!/usr/bin/env bash
# Checks metrics, alerts, boards and docs/operations.md against the program and each other:
# run.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
binary=$1 source=$2 tools=$3
"$source/tests/monitoring/tools.sh" "$tools"
export PYTHONPATH=$source/tests/roles
exec "$tools/monitoring/bin/python" -B "$source/tests/monitoring/monitoring.py" \
    "$binary" "$source" "$tools"
