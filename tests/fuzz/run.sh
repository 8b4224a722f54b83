#!/usr/bin/env bash
# Builds every fuzzer with coverage and sanitizers and runs them for so long in all: run.sh BUILD_FOLDER MINUTES JOBS.
# What was learnt stays in BUILD_FOLDER for the next time; a finding is kept there, named, and fails.
set -euo pipefail
build=$1 minutes=$2 jobs=$3
here=$(dirname "$0")
programs=()
for source in "$here"/*_fuzz.c; do programs+=("$(basename "$source" .c)"); done
seconds=$((minutes * 60 * jobs / ${#programs[@]}))

mkdir -p "$build"
cmake --preset fuzz >"$build/cmake.log" || { cat "$build/cmake.log"; exit 1; }
cmake --build "$build" -j "$jobs" --target "${programs[@]}"

# one PROGRAM: its last line, and its log when something was found
one() {
    local program=$1 learnt=$build/learnt/$1 found=$build/found/$1/
    local corpus=$here/${program%_fuzz}_corpus
    mkdir -p "$learnt" "$found"
    [ -d "$corpus" ] || corpus=
    if "$build/tests/fuzz/$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$found" "$learnt" $corpus >"$found/log" 2>&1; then
        sed -n "s/^stat::number_of_executed_units: */$program: runs /p" "$found/log"
    else
        tail -n 40 "$found/log"
        echo "$program: FAILED, see $found"
        return 1
    fi
}
export -f one
export build here seconds
printf '%s\n' "${programs[@]}" | xargs -P "$jobs" -I{} bash -c 'one {}'
