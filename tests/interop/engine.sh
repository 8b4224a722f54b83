#!/usr/bin/env bash
# grpcio before the port of gateways: engine.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER [engine_clients | kv_events | adapters]
set -euo pipefail
binary=$1 source=$2 tools=$3
"$source/tests/interop/tools.sh" "$source" "$tools"
export PYTHONPATH=$tools/stubs:$source/tests/roles
exec "$tools/venv/bin/python" -W ignore -B "$source/tests/interop/${4:-engine_clients}.py" "$binary" "$source/model/demo"
