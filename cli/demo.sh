#!/bin/sh
# demo.sh KVFERRY [demo|smollm2]: serves a model on free ports, generates, prints what happened where,
# stops. Fails unless KV crossed between the workers.
#
#   demo      model/demo: a short prompt, and a long one
#   smollm2   SmolLM2-135M-Instruct, fetched once: answers QUESTION, a variable of the environment
#
# DEVICE, of the environment: what computes (--device). SHORT=1, for one that is slow: a verse of the demo model, whose tokens
# must be the CPU's.
set -u
device=${DEVICE:-cpu}
kvferry=${1:-build/release/kvferry}
name=${2:-demo}
here=$(dirname "$0")
case $name in
demo)
    model=$here/../model/demo
    local_max=32
    ;;
smollm2)
    local_max=0 # questions are short, and KV is to cross
    model=$here/../build/models/smollm2-135m-instruct
    [ -d "$model" ] || echo "demo: fetches the model once: 110 MB, and a minute to write it as a folder of 270 MB"
    python3 -B "$here/../tests/real/smollm2.py" "$model" || exit 1
    ;;
*)
    echo "demo: there is no model '$name': demo or smollm2" >&2
    exit 2
    ;;
esac
echo "demo: 3 of 3: serves $name by a router, a context worker and a generation worker on free ports, generates, stops:" \
    "about 10 s on two CPUs"
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

# start FLAGS...
start() {
    any=127.0.0.1:0
    rm -f "$work/ports"
    "$kvferry" serve "$model" --grpc-address $any --http-address $any --control-address $any --health-address $any \
        --metrics-address $any --ports-file "$work/ports" --log-level warn \
        --local-prefill-max-tokens $local_max "$@" 2>"$work/log" &
    server=$!
    tries=0
    until [ -s "$work/ports" ]; do
        kill -0 "$server" 2>/dev/null || fail "the server did not start"
        tries=$((tries + 1))
        [ $tries -le 600 ] || fail "the server was not ready in 30 s"
        sleep 0.05
    done
    grpc=$(sed -n 's/.*"grpc": "\(.*\)".*/\1/p' "$work/ports")
}

# end: the server has nothing left to say.
end() {
    kill "$server"
    wait "$server"
    ended=$?
    server=
    [ $ended -eq 0 ] || fail "the server ended with status $ended"
}

# ask NAME FLAGS...: text to the terminal, figures to $work/NAME.
ask() {
    asked=$1
    shift
    if ! "$kvferry" generate --server "$grpc" --verbose --deadline-ms 60s "$@" \
        2>"$work/$asked"; then
        cat "$work/$asked" >&2
        fail "the $asked prompt failed"
    fi
}

# value FILE ROW: what the row of that name says.
value() {
    sed -n "s/^  $2  *//p" "$work/$1"
}

# report NAME
report() {
    echo "$1 prompt"
    for row in "tokens" "context worker" "generation worker" "KV" "first token" "speed"; do
        printf '  %-18s %s\n' "$row" "$(value "$1" "$row")"
    done
}

psalm_and_ruth() {
    set -- --seed 151 --temperature 0.8 --top-p 0.95
    echo
    echo "--- a short prompt: a psalm that there is not"
    ask short "$@" --echo --max-tokens 96 "Psalms 151
1 "
    echo
    echo "--- 1,500 tokens: the book of Ruth goes on"
    ask long "$@" --max-tokens 64 --prompt-file "$here/demo_prompt.txt"
    echo
    report short
    report long
    crossed=long
}

# As the model's chat template puts it.
question() {
    question=${QUESTION:-Why is the sky blue?}
    echo
    echo "--- $question"
    ask chat --temperature 0 --max-tokens 160 "<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
$question<|im_end|>
<|im_start|>assistant
"
    echo
    report chat
    crossed=chat
}

# The same greedy tokens by the CPU and by the device: words whose margins, each of them, are more than twice what the device's
# logits may be off by. tests/simt/model/margin_test.c measures that of these; of others tokens may differ.
verse() {
    set -- --temperature 0 --max-tokens 13 "Thus saith the LORD of"
    echo
    echo "--- a verse, by the CPU and by $device"
    start --device cpu --quiet
    ask cpu "$@" >"$work/cpu.text"
    end
    start --device "$device" --quiet --kv-memory 4M --max-context-tokens 256
    ask verse "$@" >"$work/verse.text"
    cat "$work/verse.text"
    cmp "$work/cpu.text" "$work/verse.text" || fail "the CPU's tokens are: $(cat "$work/cpu.text")"
    echo
    report verse
    crossed=verse
}

if [ "${SHORT:-0}" = 1 ]; then
    local_max=0
    verse
else
    start --device "$device"
    case $name in
    demo) psalm_and_ruth ;;
    smollm2) question ;;
    esac
fi
end
kv_bytes=$(value $crossed KV | sed 's/ bytes.*//')
[ "${kv_bytes:-0}" -gt 0 ] || fail "no KV crossed for the $crossed prompt"
stop
