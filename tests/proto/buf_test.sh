#!/usr/bin/env bash
# What buf says of the published protos: buf_test.sh SOURCE_FOLDER TOOLS_FOLDER
# lint|breaking|lint_caught|breaking_caught
set -euo pipefail
source=$1 tools=$2 what=$3
"$source/tests/interop/tools.sh" "$source" "$tools"
buf=$tools/buf
baseline=$source/tests/proto/baseline

lint() { "$buf" lint "$1"; }
breaking() { "$buf" breaking "$1" --against "$baseline"; }

# caught CHECK NAME FILE SED-SCRIPT WORDS: so changed, CHECK refuses the file in words that hold these
caught() {
    local check=$1 copy said
    shift
    copy=$(mktemp -d)
    cp -r "$source/proto/." "$copy"
    sed -i "$3" "$copy/kvferry/$2"
    if cmp -s "$source/proto/kvferry/$2" "$copy/kvferry/$2"; then
        echo "$1: the script changes nothing"
        exit 1
    fi
    if said=$("$check" "$copy" 2>&1) || [[ $said != *"$4"* ]]; then
        echo "$1: not caught: $said"
        exit 1
    fi
    echo "$1: caught"
    rm -rf "$copy"
}

case $what in
lint) lint "$source/proto" ;;
breaking) breaking "$source/proto" ;;
lint_caught)
    caught lint "a service's name" v1/generation.proto 's/service GenerationService/service Generation/' \
        'should be suffixed with "Service"'
    caught lint "a field's name" v1/sampling.proto 's/max_tokens = /maxTokens = /' 'lower_snake_case'
    caught lint "a message's name" v1/sampling.proto 's/\bTokenLogprob\b/token_logprob/' 'PascalCase'
    caught lint "an enum's value" v1/sampling.proto 's/FINISH_REASON_STOP\b/STOP/' 'FINISH_REASON_'
    caught lint "another folder's package" internal/v1/admin.proto \
        's/^package kvferry.internal.v1;/package kvferry.internal.v2;/' 'directory'
    caught lint "an inner method's request" internal/v1/admin.proto \
        's/\bGetStateRequest\b/GetStateQuestion/' 'GetStateRequest'
    ;;
breaking_caught)
    caught breaking "a removed field" v1/generation.proto '/cache_salt = 6/d' 'Previously present field "6"'
    caught breaking "another number" v1/sampling.proto 's/top_k = 3;/top_k = 99;/' 'Previously present field "3"'
    caught breaking "another type" v1/sampling.proto 's/uint64 seed/uint32 seed/' 'changed type'
    caught breaking "another name" v1/model.proto 's/vocabulary = 4/words = 4/' 'changed name'
    caught breaking "lost presence" v1/sampling.proto 's/optional float temperature/float temperature/' 'cardinality'
    caught breaking "a freed number" v1/model.proto '/reserved 1 to 6;/d' 'reserved range'
    caught breaking "a removed method" v1/generation.proto '/rpc Tokenize/d' 'RPC "Tokenize"'
    caught breaking "a stream no more" v1/generation.proto 's/(stream GenerateResponse)/(GenerateResponse)/' 'streaming'
    caught breaking "another Go package" v1/generation.proto 's/kvferryv1/kvferry/' 'go_package'
    copy=$(mktemp -d)
    cp -r "$source/proto/." "$copy"
    sed -i '/held_tokens = 5/d' "$copy/kvferry/internal/v1/context_worker.proto"
    breaking "$copy"
    rm -rf "$copy"
    echo "an inner field: free to go"
    ;;
*)
    echo "buf_test: $what?" >&2
    exit 2
    ;;
esac
