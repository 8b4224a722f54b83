#!/bin/sh
# files.sh [--check] - copies deploy/monitoring's alerts and boards into the chart: a chart can only use files in its
# own folder. --check only prints the differences, and fails if there are any.
set -eu
cd "$(dirname "$0")/../monitoring"
into=../chart/kvferry/files

differs() {
    [ ! -f alerts.yaml ] || cmp -s alerts.yaml "$into/alerts.yaml" || echo "alerts.yaml"
    for board in boards/*.json; do
        [ ! -f "$board" ] || cmp -s "$board" "$into/$board" || echo "$board"
    done
    for copy in "$into"/boards/*.json; do
        [ ! -f "$copy" ] || [ -f "boards/${copy##*/}" ] || echo "boards/${copy##*/} is no longer there"
    done
}

if [ "${1:-}" = --check ]; then
    found=$(differs)
    [ -z "$found" ] || { echo "$found"; exit 1; }
    exit 0
fi
rm -rf "$into"
mkdir -p "$into/boards"
cp alerts.yaml "$into/"
cp boards/*.json "$into/boards/"
