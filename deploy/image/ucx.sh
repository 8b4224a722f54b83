#!/bin/sh
# ucx.sh FOLDER - unpacks the UCX of the image's cuda flavour into FOLDER/ucx: the package that ucx_requirements.txt names by its
# hashes. What is there already is kept; callers may run at once.
set -eu
folder=$1
requirements=$(dirname "$0")/ucx_requirements.txt
mkdir -p "$folder"
exec 9>"$folder/ucx.lock"
flock 9
cmp -s "$requirements" "$folder/ucx/requirements.txt" && exit 0
rm -rf "$folder/ucx" "$folder/ucx.venv"
python3 -m venv "$folder/ucx.venv"
"$folder/ucx.venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps \
    --only-binary :all: --require-hashes --target "$folder/ucx" -r "$requirements"
rm -rf "$folder/ucx.venv"
cp "$requirements" "$folder/ucx/requirements.txt"
