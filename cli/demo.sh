#!/bin/sh
# demo.sh KVFERRY: serves model/demo on free ports, generates from a short and from a long prompt,
# prints what happened where, stops. Fails unless the long prompt's KV crossed between the workers.
set -u
kvferry=${1:-build/release/kvferry}
here=$(dirname "$0")
model=$here/../model/demo
work=$(mktemp -d "${TMPDIR:-/tmp}/kvferry-demo.XXXXXX") || exit 1
server=

stop() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        server=
    fi
    rm -rf "$work"
}
trap 'stop; exit 130' INT TERM

fail() {
    echo "demo: $1" >&2
    [ -s "$work/log" ] && cat "$work/log" >&2
    stop
    exit 1
}

any=127.0.0.1:0
"$kvferry" serve "$model" --grpc-address $any --control-address $any --health-address $any \
    --metrics-address $any --ports-file "$work/ports" --log-level warn 2>"$work/log" &
server=$!
tries=0
until [ -s "$work/ports" ]; do
    kill -0 "$server" 2>/dev/null || fail "the server did not start"
    tries=$((tries + 1))
    [ $tries -le 600 ] || fail "the server was not ready in 30 s"
    sleep 0.05
done
grpc=$(sed -n 's/.*"grpc": "\(.*\)".*/\1/p' "$work/ports")

# ask NAME FLAGS...: text to the terminal, figures to $work/NAME.
ask() {
    name=$1
    shift
    if ! "$kvferry" generate --server "$grpc" --verbose --seed 151 --temperature 0.8 --top-p 0.95 \
        --deadline-ms 60s "$@" 2>"$work/$name"; then
        cat "$work/$name" >&2
        fail "the $name prompt failed"
    fi
}

echo
echo "--- a short prompt: a psalm that there is not"
ask short --echo --max-tokens 96 "Psalms 151
1 "
echo
echo "--- 1,500 tokens: the book of Ruth goes on"
ask long --max-tokens 64 --prompt-file "$here/demo_prompt.txt"

# value FILE ROW: what the row of that name says.
value() {
    sed -n "s/^  $2  *//p" "$work/$1"
}

echo
for name in short long; do
    echo "$name prompt"
    for row in "tokens" "context worker" "generation worker" "KV" "first token" "speed"; do
        printf '  %-18s %s\n' "$row" "$(value $name "$row")"
    done
done

kill "$server"
wait "$server"
ended=$?
server=
[ $ended -eq 0 ] || fail "the server ended with status $ended"
kv_bytes=$(value long KV | sed 's/ bytes.*//')
[ "${kv_bytes:-0}" -gt 0 ] || fail "no KV crossed for the long prompt"
stop
