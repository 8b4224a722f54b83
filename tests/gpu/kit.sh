#!/usr/bin/env bash
# kit.sh BUILD FOLDER: lays down a folder that measures by itself on any x86-64 machine with a GPU: the programs of a build
# (its tests/gpu, tests/bench), every library that they are linked with, down to the loader, the scripts, and the demo
# model (its tokenizer). Of a build of the preset cuda; one without kernels for a GPU makes a kit that can use the driver double alone.
set -euo pipefail
build=$(cd "${1:?usage: kit.sh BUILD FOLDER}" && pwd)
mkdir -p "${2:?usage: kit.sh BUILD FOLDER}"
kit=$(cd "$2" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_folder=$(cd "$here/../.." && pwd)
rm -rf "${kit:?}/bin" "$kit/lib" "$kit/double" "$kit/tests" "$kit/model"
mkdir -p "$kit/bin" "$kit/lib" "$kit/double" "$kit/tests/bench" "$kit/model"
programs=(gpu/gpu_bench gpu/gpu_conform gpu/gpu_bits gpu/gpu_cases bench/model_bench bench/transfer_bench)
for program in "${programs[@]}"; do
    [ -x "$build/tests/$program" ] && cp "$build/tests/$program" "$kit/bin/"
done
strip --strip-debug "$kit"/bin/*
# What a driver wants besides is of the same C library, too, or the loader does not take it.
ldd "$kit"/bin/* | awk '/=> \// {print $3} /ld-linux/ {print $1}' | sort -u | xargs -I{} cp -L {} "$kit/lib/"
c_library=$(dirname "$(ldd "$kit/bin/gpu_bench" | awk '$1 == "libc.so.6" {print $3}')")
for library in libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2 libm.so.6 libgcc_s.so.1; do
    [ ! -f "$c_library/$library" ] || cp -L "$c_library/$library" "$kit/lib/"
done
for module in libcuda.so.1 double-executor double-image.so; do
    [ -f "$build/tests/simt/driver/$module" ] && cp "$build/tests/simt/driver/$module" "$kit/double/"
done
cp "$here"/measure.sh "$here"/measure.py "$here"/peers.py "$kit/"
# It looks for the tokenizer where it does in the tree.
cp "$source_folder/tests/bench/make_model.py" "$kit/tests/bench/"
cp -r "$source_folder/model/demo" "$kit/model/"
git -C "$source_folder" describe --always --dirty >"$kit/commit" 2>/dev/null || echo unknown >"$kit/commit"
echo "kit: $(find "$kit" -type f | wc -l) files, $(du -sm "$kit" | cut -f1) MiB: bash $kit/measure.sh"
