#!/usr/bin/env bash
# kit_test.sh BUILD FOLDER: a kit is made and runs to its end without a GPU, every section measured or said to be skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/kit.sh" "$1" "$2"
bash "$2/measure.sh" --out "$2/out" --seconds 1200
grep -q '"\.\.", "\.\.", "model", "demo"' "$2/tests/bench/make_model.py" # numpy may not be here to run it
test -f "$2/tests/bench/../../model/demo/tokenizer_config.json"
python3 - "$2/out/measure.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
known = {"conform", "bits", "cases", "sanitizer", "ceilings", "prefill", "decode", "products", "model", "handover"}
measured = {figure["section"] for figure in result["figures"]}
seen = measured | {skip["section"] for skip in result["skipped"]}
assert not result["failed"], result["failed"]
assert seen == known, known - seen
assert {"conform", "bits", "ceilings", "prefill", "decode", "products", "handover"} <= measured, measured
assert all(figure["us"] > 0 for figure in result["figures"] if "us" in figure)
assert bool(result["commit"])
END
if bash "$2/measure.sh" --out "$2/out" nothing >"$2/out/refused" 2>&1; then
    echo "a section that does not exist is taken"
    exit 1
fi
grep -q "section nothing: none of" "$2/out/refused"
# A difference between two bodies is found, by each way of comparing.
for wrapper in copies boxes fours products float_to_f16 multiply_add log2_fast expf byte_permute; do
    status=0
    LD_LIBRARY_PATH=$2/double "$2/bin/gpu_conform" cuda:0 --toy --plant $wrapper $wrapper >"$2/out/planted" 2>&1 || status=$?
    if [ $status != 3 ]; then
        echo "a difference planted in $wrapper is not found: $status"
        exit 1
    fi
    grep -q "\"name\": \"$wrapper\", \"verdict\": \"WRONG\"" "$2/out/planted"
done
# A bit of a run that is another than in its company is found, in each way to compare.
for planted in "near:product F32" "one by one:product INT8 rows" "beside others:grouped BF16, cache INT8"; do
    IFS=: read -r run check <<<"$planted"
    status=0
    LD_LIBRARY_PATH=$2/double "$2/bin/gpu_bits" cuda:0 --toy --plant "$run" "$check" >"$2/out/planted" 2>&1 || status=$?
    if [ $status != 3 ]; then
        echo "a difference planted in '$run' is not found: $status"
        exit 1
    fi
    grep -q "\"name\": \"$check\", \"verdict\": \"WRONG\"" "$2/out/planted"
done
echo "kit: right"
