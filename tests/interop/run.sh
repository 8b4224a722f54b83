#!/usr/bin/env bash
# Runs the foreign clients: run.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
binary=$1 source=$2 tools=$3
here=$source/tests/interop
"$here/tools.sh" "$source" "$tools"

export PYTHONPATH=$tools/stubs:$source/tests/roles
python=$tools/venv/bin/python
"$python" "$here/foreign_clients.py" "$binary" "$source/model/demo" "$tools/grpcurl" "$tools/go/client"
"$python" "$here/lying_context_worker.py" "$binary" "$source/model/demo"
"$python" "$here/key_change.py" "$binary" "$source/model/demo"
"$python" "$here/certificate_change.py" "$binary" "$source/model/demo"
"$python" "$here/traces.py" "$binary" "$source/model/demo"
"$python" "$here/rolling_restart.py" "$binary" "$source/model/demo"
"$python" "$here/restarts.py" "$binary" "$source/model/demo"
