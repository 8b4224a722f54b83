#!/usr/bin/env bash
# A gateway before the engine port: gateway.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER smg|vllm_router|dynamo
# Fetches it, pinned, into TOOLS_FOLDER. 77: it cannot be installed here, and this says so.
set -euo pipefail
binary=$1 source=$2 tools=$3 gateway=$4
here=$source/tests/interop
alone= # installed without what it depends on
case $gateway in
smg) packages=smg==1.13.0 ;;
vllm_router) packages=vllm-router==0.1.17 ;;
dynamo) # one of its dependencies, which serving does not need, is on a registry of its own
    alone=ai-dynamo==1.6.1
    packages="ai-dynamo-runtime==1.6.1 aiohttp certifi kubernetes==32.0.1 msgspec prometheus-client pyzmq redis tqdm transformers typing-extensions zstandard" ;;
*) echo "no such gateway: $gateway" >&2; exit 1 ;;
esac
folder=$tools/gateway_$gateway

skip() {
    echo "SKIPPED: $packages: $1" >&2
    exit 77
}

mkdir -p "$tools"
"$here/venv.sh" "$tools"
exec 9>"$folder.lock"
flock 9
if [ "$(cat "$folder/packages" 2>/dev/null)" != "$alone $packages" ]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    pip=("$folder/bin/pip" install --quiet --disable-pip-version-check)
    [ -z "$alone" ] || "${pip[@]}" --no-deps "$alone" || skip "pip cannot install it"
    # shellcheck disable=SC2086
    "${pip[@]}" $packages || skip "pip cannot install it"
    echo "$alone $packages" >"$folder/packages"
fi
PYTHONPATH=$source/tests/roles "$tools/venv/bin/python" -W ignore -B "$here/gateway_$gateway.py" "$binary" "$source/model/demo" "$tools"
