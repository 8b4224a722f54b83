#!/bin/sh
# make.sh PROGRAM OUTPUT [FLAVOUR [FOLDER]] - makes the image of a release build, without a registry or container tools.
#
# FLAVOUR: cpu (the default), or cuda for a program of the preset cuda. For cuda, UCX is fetched into FOLDER (by default the folder
# of OUTPUT) unless it is there.
# SOURCE_DATE_EPOCH: all times in the image (default: the commit's). REVISION (default: the commit). SOURCE: URL of the sources, if any.
set -eu
program=$1
output=$2
flavour=${3:-cpu}
folder=${4:-$(dirname "$output")}
here=$(dirname "$0")
source_folder=$here/../..
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$source_folder" log -1 --format=%ct 2>/dev/null || echo 0)}
revision=${REVISION:-$(git -C "$source_folder" describe --always --abbrev=40 --dirty 2>/dev/null || echo unknown)}
version=$("$program" version | sed -n '1s/^[^0-9]*\([0-9][0-9.]*\).*/\1/p')
mkdir -p "$(dirname "$output")"
case "$flavour" in
cpu) ucx= ;;
cuda)
    if ! "$program" version | grep -q '^GPU kernels  *part of this build$'; then
        echo "make.sh: $program has no kernels for a GPU: the cuda flavour takes one of the preset cuda (make image FLAVOUR=cuda)" >&2
        exit 1
    fi
    "$here/ucx.sh" "$folder"
    ucx=$folder/ucx
    ;;
*)
    echo "make.sh: FLAVOUR is cpu or cuda, not $flavour" >&2
    exit 2
    ;;
esac
root=$(mktemp -d "$(dirname "$output")/root.XXXXXX")
trap 'rm -rf "$root"' EXIT
python3 -B "$here/layout.py" "$program" "$source_folder" "$root/image" ${ucx:+"$ucx"}
python3 -B "$here/image.py" "$root/image" "$output" --version "$version" --revision "$revision" \
    --source "${SOURCE:-}" --epoch "$epoch" --flavour "$flavour"
