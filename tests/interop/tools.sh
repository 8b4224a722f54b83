#!/usr/bin/env bash
# Fetches the foreign clients' tools, pinned, and generates their code from proto/:
# tools.sh SOURCE_FOLDER TOOLS_FOLDER. What is there already is kept; callers may run at once.
set -euo pipefail
source=$1 tools=$2
here=$source/tests/interop
grpcurl_version=v1.9.1
buf_version=1.47.2
protoc_gen_go_version=v1.34.1
protoc_gen_go_grpc_version=v1.3.0

mkdir -p "$tools"
exec 9>"$tools/lock"
flock 9

# go_tool NAME PACKAGE VERSION: the program $tools/NAME-VERSION
go_tool() {
    [ -x "$tools/$1-$3" ] && return
    GOBIN=$tools go install "$2@$3"
    mv "$tools/$1" "$tools/$1-$3"
}

"$here/venv.sh" "$tools"
if [ ! -x "$tools/buf-$buf_version/node_modules/.bin/buf" ]; then
    npm install --silent --no-audit --no-fund --prefix "$tools/buf-$buf_version" "@bufbuild/buf@$buf_version"
fi
ln -sfn "buf-$buf_version/node_modules/.bin/buf" "$tools/buf"
go_tool grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl $grpcurl_version
go_tool protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go $protoc_gen_go_version
go_tool protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc $protoc_gen_go_grpc_version
ln -sfn "grpcurl-$grpcurl_version" "$tools/grpcurl"

# Code from the published files, anew each time: Python's of all, Go's of the public ones.
stamp=$(cd "$source" && find proto tests/interop -type f -print0 | sort -z | xargs -0 sha256sum)
if [ "$stamp" != "$(cat "$tools/stamp" 2>/dev/null)" ]; then
    rm -rf "$tools/stubs" "$tools/go"
    mkdir -p "$tools/stubs"
    cp -r "$here/go" "$tools/go"
    cd "$source/proto"
    "$tools/venv/bin/python" -m grpc_tools.protoc -I. \
        --python_out="$tools/stubs" --grpc_python_out="$tools/stubs" \
        kvferry/v1/*.proto kvferry/internal/v1/*.proto \
        vllm/*.proto vllm/grpc/engine/*.proto smg/grpc/common/*.proto
    "$tools/venv/bin/python" -m grpc_tools.protoc -I. \
        --plugin="protoc-gen-go=$tools/protoc-gen-go-$protoc_gen_go_version" \
        --plugin="protoc-gen-go-grpc=$tools/protoc-gen-go-grpc-$protoc_gen_go_grpc_version" \
        --go_out="$tools/go" --go_opt=paths=source_relative \
        --go-grpc_out="$tools/go" --go-grpc_opt=paths=source_relative kvferry/v1/*.proto
    (cd "$tools/go" && go build -o client .)
    printf '%s' "$stamp" >"$tools/stamp"
fi
