#!/bin/sh
# rebuild.sh SOURCE - releases of the same commit, built in two folders without a cache, make the same image, and have no path of
# either. About two builds' time.
set -eu
source_folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000 REVISION=0123abcd KVFERRY_COMMIT=0123abcd CCACHE_DISABLE=1
for name in one another-of-a-longer-name; do
    mkdir -p "$work/$name"
    git -C "$source_folder" ls-files -z | (cd "$source_folder" && tar -c --null -T -) | tar -x -C "$work/$name"
    (cd "$work/$name" && cmake --preset release >/dev/null && cmake --build build/release --target kvferry -j "$(nproc)") \
        >"$work/log" || { tail "$work/log"; exit 1; }
    "$work/$name/deploy/image/make.sh" "$work/$name/build/release/kvferry" "$work/$name.tar"
    if grep -a -q -F "$work" "$work/$name.tar"; then
        echo "the image has the path of its build" >&2
        exit 1
    fi
done
cmp "$work/one.tar" "$work/another-of-a-longer-name.tar"
echo "the same bytes"
