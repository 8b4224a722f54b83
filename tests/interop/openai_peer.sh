#!/usr/bin/env bash
# Another client of OpenAI's API before the HTTP port: openai_peer.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER node|litellm|langchain|lm_eval
# Fetches it, pinned, into TOOLS_FOLDER. 77: it cannot be installed here, and this says so.
set -euo pipefail
binary=$1 source=$2 tools=$3 peer=$4
here=$source/tests/interop
case $peer in
node) packages=openai@6.49.0 ;;
litellm) packages=litellm==1.110.2 ;;
langchain) packages=langchain-openai==1.7.4 ;;
lm_eval) packages="lm_eval[api]==0.4.13 transformers==5.23.0" ;;
*) echo "no such client: $peer" >&2; exit 1 ;;
esac
folder=$tools/openai_$peer

skip() {
    echo "SKIPPED: $packages: $1" >&2
    exit 77
}

mkdir -p "$tools"
exec 8>"$folder.lock"
flock 8
if [ "$(cat "$folder/packages" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$folder"
    if [ "$peer" = node ]; then
        command -v npm >/dev/null || skip "there is no npm"
        npm install --silent --no-audit --no-fund --prefix "$folder" $packages || skip "npm cannot install it"
    else
        python3 -m venv "$folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check $packages || skip "pip cannot install it"
    fi
    echo "$packages" >"$folder/packages"
fi
python=python3
[ "$peer" = node ] || python=$folder/bin/python
[ "$peer" != node ] || cp "$here/openai_node.mjs" "$folder/"
PYTHONPATH=$source/tests/roles "$python" -W ignore -B "$here/openai_$peer.py" "$binary" "$source/model/demo" "$folder"
