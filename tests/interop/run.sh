#!/usr/bin/env bash
# Runs the foreign clients: run.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
binary=$1 source=$2 tools=$3
here=$source/tests/interop
grpcurl_version=v1.9.1

mkdir -p "$tools"
if ! cmp -s "$here/requirements.txt" "$tools/venv/requirements.txt"; then
    rm -rf "$tools/venv"
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$tools/venv/requirements.txt"
fi
if [ ! -x "$tools/grpcurl-$grpcurl_version" ]; then
    GOBIN=$tools go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$grpcurl_version"
    mv "$tools/grpcurl" "$tools/grpcurl-$grpcurl_version"
fi

stubs=$tools/stubs
rm -rf "$stubs" && mkdir -p "$stubs"
(cd "$source/proto" && "$tools/venv/bin/python" -m grpc_tools.protoc -I. \
    --python_out="$stubs" --grpc_python_out="$stubs" kvferry/v1/*.proto)

export PYTHONPATH=$stubs:$source/tests/roles
python=$tools/venv/bin/python
"$python" "$here/foreign_clients.py" "$binary" "$source/model/demo" "$tools/grpcurl-$grpcurl_version"
"$python" "$here/lying_context_worker.py" "$binary" "$source/model/demo"
