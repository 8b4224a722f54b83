#!/usr/bin/env bash
# program.sh KVFERRY: the whole program, built for 64-bit Arm, runs in qemu as each of the three roles; its
# tokens and its KV are those of KVFERRY, this machine's. Ends with 77 if this machine is no x86-64.
set -euo pipefail
kvferry=$(realpath "$1")
cd "$(dirname "$0")/../.."

[ "$(uname -m)" = x86_64 ] || { echo "arm64: this machine is a $(uname -m); the comparison is with x86_64" >&2; exit 77; }
for program in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$program" >/dev/null || { echo "arm64: $program is missing: deploy/setup.sh nightly" >&2; exit 1; }
done
tests/arm64/root.sh build/arm64-root
cmake --preset arm64-program
cmake --build build/arm64-program -j "$(nproc)" --target kvferry
PYTHONPATH=tests/roles python3 -B tests/arm64/mixes.py "$kvferry" build/arm64-program/kvferry build/arm64-root/root model/demo
