#!/usr/bin/env bash
# Runs the clients of docs/examples: run.sh KVFERRY_BINARY C_EXAMPLE SOURCE_FOLDER TOOLS_FOLDER
# Each must print what `kvferry generate` prints, and fail with the server's sentence.
set -euo pipefail
binary=$1 c_example=$2 source=$3 tools=$4
"$source/tests/interop/tools.sh" "$source" "$tools"
work=$(mktemp -d)
server=
stop() {
    if [ -n "$server" ]; then
        kill "$server"
        wait "$server" || true
    fi
    rm -rf "$work"
}
trap stop EXIT

cp -r "$source/docs/examples/go" "$work/go"
cp -r "$tools/go/kvferry" "$work/go/"
(cd "$work/go" && go build -o example .)

any=127.0.0.1:0
"$binary" serve "$source/model/demo" --grpc-address $any --http-address $any --control-address $any \
    --health-address $any --metrics-address $any --ports-file "$work/ports" --quiet 2>"$work/log" &
server=$!
until [ -s "$work/ports" ]; do
    kill -0 $server || { cat "$work/log"; exit 1; }
    sleep 0.05
done
address=$(sed -n 's/.*"grpc": "\(.*\)".*/\1/p' "$work/ports")
export PYTHONPATH=$tools/stubs

# example LANGUAGE PROMPT
example() {
    case $1 in
    python) "$tools/venv/bin/python" -B "$source/docs/examples/python/generate.py" "$address" "$2" ;;
    go) "$work/go/example" "$address" "$2" ;;
    c) "$c_example" "$address" "$2" ;;
    esac
}

prompt="In the beginning God created the heaven and the earth. "
wanted=$("$binary" generate --server "$address" --max-tokens 32 --temperature 0 "$prompt")
[ -n "$wanted" ]
for language in python go c; do
    text=$(example $language "$prompt")
    [ "$text" = "$wanted" ] || { echo "$language printed: $text"; exit 1; }
    if example $language "" 2>"$work/error"; then
        echo "$language: an empty prompt was no error"
        exit 1
    fi
    grep -q "text is empty" "$work/error" || { cat "$work/error"; exit 1; }
    echo "$language: as kvferry generate, ${#text} characters"
done
kill "$server"
wait "$server"
server=
