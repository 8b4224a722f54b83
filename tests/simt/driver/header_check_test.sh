#!/usr/bin/env bash
# header_check_test.sh INCLUDE: header_check.c compiles against NVIDIA's header in INCLUDE, and with a difference planted in
# device/cuda_driver.h, or in codes.list, it does not.
set -euo pipefail
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
compile() {
    ${CC:-cc} -std=c11 -fsyntax-only "-I$copy" "-I$source_folder" -isystem "$1" "$copy/header_check.c" 2>"$copy/said"
}
plant() { # plant FILE SED: that line of it is another
    rm -rf "$copy"/*
    mkdir -p "$copy/device" "$copy/tests/simt/driver"
    cp "$source_folder/device/cuda_driver.h" "$copy/device/"
    cp "$source_folder/tests/simt/driver/codes.list" "$copy/tests/simt/driver/"
    cp "$source_folder/tests/simt/driver/header_check.c" "$copy/"
    [ $# = 0 ] || sed -i "$2" "$copy/$1"
    [ $# = 0 ] || ! cmp -s "$copy/$1" "$source_folder/$1" || { echo "nothing is planted by $2"; exit 1; }
}
plant
compile "$1" || { cat "$copy/said"; exit 1; }
driver=device/cuda_driver.h
while read -r file difference; do
    plant "$file" "$difference"
    if compile "$1" || ! grep -q "static assertion failed\|undeclared\|unknown type" "$copy/said"; then
        echo "not found: $difference"
        cat "$copy/said"
        exit 1
    fi
done <<PLANTED
$driver s/X(NOT_READY,.600)/X(NOT_READY,\ 601)/
$driver s/CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,.8/CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,\ 9/
$driver s/cuDevicePrimaryCtxRelease,.11000/cuDevicePrimaryCtxRelease,\ 11010/
$driver s/cuMemFree_v2,.(cuda_address/cuMemFree_v2,\ (uint32_t/
$driver s/char.reserved\[64\]/char\ reserved[63]/
tests/simt/driver/codes.list s/ERROR_ILLEGAL_ADDRESS,.700/ERROR_ILLEGAL_ADDRESS,\ 701/
PLANTED
echo "header: right"
