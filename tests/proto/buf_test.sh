#!/usr/bin/env bash
# What buf says of the published protos: buf_test.sh SOURCE_FOLDER TOOLS_FOLDER lint|breaking|caught
set -euo pipefail
source=$1 tools=$2 what=$3
"$source/tests/interop/tools.sh" "$source" "$tools"
buf=$tools/buf
baseline=$source/tests/proto/baseline

# caught NAME FILE SED-SCRIPT WORDS: so changed, the file is refused, in words that hold these
caught() {
    local copy said
    copy=$(mktemp -d)
    cp -r "$source/proto/." "$copy"
    sed -i "$3" "$copy/kvferry/$2"
    if cmp -s "$source/proto/kvferry/$2" "$copy/kvferry/$2"; then
        echo "$1: the script changes nothing"
        exit 1
    fi
    if said=$("$buf" breaking "$copy" --against "$baseline" 2>&1) || [[ $said != *"$4"* ]]; then
        echo "$1: not caught: $said"
        exit 1
    fi
    echo "$1: caught"
    rm -rf "$copy"
}

case $what in
lint) "$buf" lint "$source/proto" ;;
breaking) "$buf" breaking "$source/proto" --against "$baseline" ;;
caught)
    caught "a removed field" v1/generation.proto '/cache_salt = 6/d' 'Previously present field "6"'
    caught "another number" v1/sampling.proto 's/top_k = 3;/top_k = 99;/' 'Previously present field "3"'
    caught "another type" v1/sampling.proto 's/uint64 seed/uint32 seed/' 'changed type'
    caught "another name" v1/model.proto 's/vocabulary = 4/words = 4/' 'changed name'
    caught "lost presence" v1/sampling.proto 's/optional float temperature/float temperature/' 'cardinality'
    caught "a freed number" v1/model.proto '/reserved 1 to 6;/d' 'reserved range'
    caught "a removed method" v1/generation.proto '/rpc Tokenize/d' 'RPC "Tokenize"'
    caught "a stream no more" v1/generation.proto 's/(stream GenerateResponse)/(GenerateResponse)/' 'streaming'
    caught "another Go package" v1/generation.proto 's/kvferryv1/kvferry/' 'go_package'
    copy=$(mktemp -d)
    cp -r "$source/proto/." "$copy"
    sed -i '/held_tokens = 5/d' "$copy/kvferry/internal/v1/context_worker.proto"
    "$buf" breaking "$copy" --against "$baseline"
    rm -rf "$copy"
    echo "an inner field: free to go"
    ;;
*)
    echo "buf_test: $what?" >&2
    exit 2
    ;;
esac
