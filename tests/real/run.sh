#!/usr/bin/env bash
# Compares the real model with its reference: run.sh KVFERRY_BINARY SOURCE_FOLDER [SETS]
# Makes the model's folder first, and the stubs. SETS are of kernels, one after the other: "all" is those that
# this machine has, but for scalar and reference, whose prompts outlast a hand-over's limits, and amx_bf16,
# which rounds. None: the one that kvferry chooses. cuda:0: one question, on that device.
set -euo pipefail
binary=$(realpath "$1") source=$(realpath "$2")
here=$source/tests/real
model=$source/build/models/smollm2-135m-instruct
tools=$source/build/foreign

python3 -B "$here/smollm2.py" "$model"
"$source/tests/interop/tools.sh" "$source" "$tools"

sets=${3:-chosen}
if [ "$sets" = all ]; then
    sets=$("$binary" version | sed -n 's/^kernels *\(.*\) (chosen.*/\1/p' | tr ' ' '\n' |
        grep -vxE 'reference|scalar|amx_bf16')
fi
test=real_model.py
if [ "$sets" = cuda:0 ]; then
    test=real_on_device.py sets=chosen
fi
for set in $sets; do
    [ "$set" = chosen ] || export KVFERRY_CPU=$set
    echo "kernels: $set"
    PYTHONPATH=$tools/stubs:$source/tests/roles \
        "$tools/venv/bin/python" -B "$here/$test" "$binary" "$model"
done
if [ "$sets" = chosen ] && [ "$test" = real_model.py ]; then
    gguf=$(python3 -B "$here/smollm2.py" --gguf)
    PYTHONPATH=$tools/stubs:$source/tests/roles \
        "$tools/venv/bin/python" -B "$here/real_gguf.py" "$binary" "$gguf"
fi
