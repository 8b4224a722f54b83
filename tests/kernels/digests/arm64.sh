#!/usr/bin/env bash
# arm64.sh [EACH]: the kernels built for 64-bit Arm compute, in qemu, the bits of this machine's: every operator, and every EACHth
# case (1: all) of the short table of attention. Ends with 0 if they do; the lines that differ otherwise. Logs: build/arm64/digests
set -euo pipefail
cd "$(dirname "$0")/../../.."
each=${1:-1}
out=build/arm64/digests

for program in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$program" >/dev/null || { echo "arm64: $program is missing: deploy/setup.sh ci" >&2; exit 1; }
done
[ "$(uname -m)" = x86_64 ] || { echo "arm64: this machine is a $(uname -m); the comparison is with x86_64" >&2; exit 1; }
grep -qw avx2 /proc/cpuinfo && own=avx2 || own=scalar

[ -e build/debug/CMakeCache.txt ] || cmake --preset debug >/dev/null
cmake --build build/debug -j "$(nproc)" --target kernels_digests
cmake --preset arm64 >/dev/null
cmake --build build/arm64 -j "$(nproc)" --target kernels_digests
here=$(find build/debug -name kernels_digests -type f)
there=$(find build/arm64 -name kernels_digests -type f)
mkdir -p "$out"

"$here" "$own" "$each" >"$out/$own.txt"
# neon_dot differs from neon in its products alone: its attention is not run again.
qemu-aarch64 -L /usr/aarch64-linux-gnu "$there" neon "$each" >"$out/neon.txt" &
qemu-aarch64 -L /usr/aarch64-linux-gnu "$there" neon_dot 4294967295 >"$out/neon_dot.txt"
wait $!

failed=0
n_operators=$(wc -l <"$out/neon_dot.txt")
[ "$n_operators" -gt 70 ] || { echo "arm64: neon_dot printed $n_operators lines" >&2; exit 1; }
for set in neon neon_dot; do
    [ "$set" = neon ] && lines=$(wc -l <"$out/$own.txt") || lines=$n_operators
    if ! diff <(head -n "$lines" "$out/$own.txt") "$out/$set.txt" >"$out/$set.diff"; then
        echo "arm64: $set has other bits than $own:" >&2
        head -n 40 "$out/$set.diff" >&2
        failed=1
    fi
done
[ "$failed" = 0 ] && echo "arm64: $(wc -l <"$out/neon.txt") results of neon, $(wc -l <"$out/neon_dot.txt") of neon_dot: the bits of $own"
exit "$failed"
