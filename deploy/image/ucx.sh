#!/bin/sh
# ucx.sh FOLDER - unpacks UCX for the image's cuda flavour into FOLDER/ucx: the package in ucx_requirements.txt, checked by its
# hashes. An existing copy is kept. Several callers may run at the same time.
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
