#!/usr/bin/env bash
# without_text.sh SOURCE_FOLDER BUILD_FOLDER - builds for this machine without the Rust library (KVFERRY_TEXT=OFF), all of it, and runs
# the tests that know chat and constraints, or their lack.
set -euo pipefail
source=$1 build=$2
cmake -S "$source" -B "$build" --preset debug -DKVFERRY_TEXT=OFF >/dev/null
cmake --build "$build" -j "$(nproc)" >"$build/build.log" || { tail -n 40 "$build/build.log"; exit 1; }
cd "$build"
ctest --output-on-failure --no-tests=error -R '^(text|router|api|cli|process|e2e_(without_text_library|choices_test|cli_test|engine_port_test|output_test|prompt_test|text_calls_test))$'
