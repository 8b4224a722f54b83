#!/usr/bin/env bash
# measure.sh [--out FOLDER] [--seconds N] [SECTION...]: everything that wants a GPU, in one call: right first, then fast.
# Runs in a folder that kit.sh made, anywhere; without a GPU it runs what the driver double can, at toy sizes, and says
# what it skipped. A table on standard output, measure.json in FOLDER (default: here). Exit status 1: something is wrong.
#
#   conform     each wrapper of hardware.cuh, its device body against its host body
#   bits        products and attention: a row's bits in any company, to the bit
#   cases       the attention case table on the device, as much of it as there is time for
#   sanitizer   compute-sanitizer's four tools over ten tiny cases
#   ceilings    bytes copied and a large product: what the others are shares of
#   prefill decode products     speed, against the ceilings, PyTorch's SDPA (cuDNN, flash) and cuBLAS, FlashInfer
#   model       prefill and decode of a whole model
#   handover    KV blocks between two processes, each driver
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$here
seconds=470
sections=()
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?a folder}; shift 2 ;;
    --seconds) seconds=${2:?a number}; shift 2 ;;
    -*) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    *) sections+=("$1"); shift ;;
    esac
done
mkdir -p "$out" || exit 1
if command -v nvidia-smi >/dev/null && nvidia-smi -L; then
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw,memory.total --format=csv
    device=cuda:0
else
    echo "no GPU: what can run on the driver double runs there, at toy sizes; its times mean nothing"
    device=double
fi
exec "${PYTHON:-python3}" -B "$here/measure.py" --kit "$here" --device "$device" --out "$out" --seconds "$seconds" \
    "${sections[@]+"${sections[@]}"}"
