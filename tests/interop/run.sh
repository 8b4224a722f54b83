#!/usr/bin/env bash
# Runs the foreign clients: run.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
binary=$1 source=$2 tools=$3
here=$source/tests/interop
grpcurl_version=v1.9.1

"$here/stubs.sh" "$source" "$tools"
if [ ! -x "$tools/grpcurl-$grpcurl_version" ]; then
    GOBIN=$tools go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$grpcurl_version"
    mv "$tools/grpcurl" "$tools/grpcurl-$grpcurl_version"
fi

export PYTHONPATH=$tools/stubs:$source/tests/roles
python=$tools/venv/bin/python
"$python" "$here/foreign_clients.py" "$binary" "$source/model/demo" "$tools/grpcurl-$grpcurl_version"
"$python" "$here/lying_context_worker.py" "$binary" "$source/model/demo"
