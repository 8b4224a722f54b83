#!/bin/sh
# clang_tidy.sh BUILD [PASSED] - clang-tidy over the product's C files of BUILD/compile_commands.json, by the
# checks of .clang-tidy, each as often as it is compiled in another way. Prints findings; ends with 1 when there are any.
# The analyzer looks into calls of small functions alone, which takes a tenth of the time; with CLANG_TIDY_DEEP, a name that the
# product does not take for one of its own, into all: every night.
# In the folder PASSED a file that passed leaves a mark, and one that has a mark is not looked at again: one run begins, another
# ends it. Whoever changes a file takes the folder away.
set -eu
build=$1 passed=${2:-}
cd "$(dirname "$0")/../.."
if [ -z "$passed" ]; then
    passed=$(mktemp -d)
    trap 'rm -rf "$passed"' EXIT
fi
mkdir -p "$passed"

# clang-tidy looks at a file by each of its commands itself, so a file is named once.
files=$(python3 - "$build/compile_commands.json" <<'PY'
import json, os, sys
root = os.getcwd() + "/"
paths = [os.path.relpath(os.path.join(entry["directory"], entry["file"]), root) for entry in json.load(open(sys.argv[1]))]
for path in dict.fromkeys(paths):
    if path.endswith(".c") and not path.startswith(("..", "build/", "tests/")):
        print(path)
PY
)
[ -n "$files" ] || { echo "clang-tidy: no files in $build/compile_commands.json" >&2; exit 1; }

depth='--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow'
[ -z "${CLANG_TIDY_DEEP:-}" ] || depth=

# Without the C library's checked twins: a function that a signal handler may call has one that looks as if it may not.
# What clang-tidy writes to stderr counts what is off.
look='
    mark=$passed/$(printf %s "$1" | tr / %)
    [ ! -e "$mark" ] || exit 0
    clang-tidy --quiet -p "$build" --extra-arg=-U_FORTIFY_SOURCE $depth $checks "$1" 2>/dev/null || exit 1
    : >"$mark"'
tidy() { # tidy [CHECKS]: the files on standard input
    build=$build passed=$passed depth=$depth checks=${1:-} xargs -r -P "$(nproc)" -n 1 sh -c "$look" look
}
failed=0
# The analyzer follows every path; in vector code it takes ten seconds a file and invents values.
echo "$files" | grep '^kernels/cpu/' | tidy '--checks=-clang-analyzer-*' || failed=1
echo "$files" | grep -v '^kernels/cpu/' | tidy || failed=1

[ "$failed" = 0 ] || exit 1
echo "clang-tidy: $(echo "$files" | wc -l) files, nothing found"
