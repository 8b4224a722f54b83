#!/usr/bin/env bash
# Runs benchmarks and prints tables and JSON: run.sh BUILD_FOLDER [--quick] [section...]
# Peers are installed here, never by set-up: llama.cpp, pinned, into build/peers for the sections that
# measure models, numpy alone for slow, tiers, drafts and adapters; oneDNN by apt when the section gemm is asked for by name, by root; the collector of traces into
# build/foreign; gRPC's C++ library by apt when the section unary is asked for by name, by root.
set -euo pipefail
build=$(realpath "$1")
shift
here=$(realpath "$(dirname "$0")")
peers=$here/../../build/peers
python=python3
sections=" $* "
mkdir -p "$peers"

if [[ $sections == *" gemm "* && $(id -u) == 0 && ! -e /usr/include/oneapi/dnnl/dnnl.h ]] &&
    command -v apt-get >/dev/null; then
    echo "installing oneDNN"
    { apt-get update -q && apt-get install -qy --no-install-recommends libdnnl-dev; } >/dev/null
    cmake "$build" >/dev/null
    cmake --build "$build" --target gemm_bench
fi

if [[ $sections == *" unary "* && $(id -u) == 0 ]] && ! command -v grpc_cpp_plugin >/dev/null &&
    command -v apt-get >/dev/null; then
    echo "installing gRPC's C++ library"
    { apt-get update -q && apt-get install -qy --no-install-recommends libgrpc++-dev protobuf-compiler-grpc; } >/dev/null
fi
peer=$here/peers/grpcxx_server.cpp
if [[ ($sections =~ ^(\ --quick)?\ *$ || $sections == *" unary "*) && $peer -nt $peers/grpcxx_server ]] &&
    command -v grpc_cpp_plugin >/dev/null; then
    protoc -I "$here/../../proto" --cpp_out="$peers" --grpc_out="$peers" \
        --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" "$here/../../proto/kvferry/v1/model.proto"
    # shellcheck disable=SC2046 # these are words
    g++ -std=c++17 -O2 -I "$peers" -o "$peers/grpcxx_server" "$peer" "$peers"/kvferry/v1/model{,.grpc}.pb.cc \
        $(pkg-config --cflags --libs grpc++ protobuf)
fi

if [[ $sections =~ ^(\ --quick)?\ *$ || $sections == *" model"* || $sections == *" gguf "* || $sections == *" kv_dtype "* ]]; then
    # GCC 12 drops the stores of ggml's AMX tile configuration: Q8_0 prompts would end in SIGILL
    # (llama.cpp pull request 26954).
    flags="-fno-tree-dse -fno-dse"
    made_of=$(echo "$flags" | cat "$here/requirements.txt" -)
    if [ "$made_of" != "$(cat "$peers/venv/made_of" 2>/dev/null)" ]; then
        echo "installing the benchmark's peers (compiles llama.cpp, some minutes)"
        rm -rf "$peers/venv"
        python3 -m venv "$peers/venv"
        # pip's cache knows nothing of flags.
        CXXFLAGS="$flags" CMAKE_ARGS="-DGGML_NATIVE=ON" "$peers/venv/bin/pip" install --quiet \
            --no-cache-dir --disable-pip-version-check -r "$here/requirements.txt"
        echo "$made_of" >"$peers/venv/made_of"
    fi
    python=$peers/venv/bin/python
elif [[ $sections == *" slow "* || $sections == *" tiers "* || $sections == *" adapters "* || $sections == *" drafts "* ]]; then # no peer, but a model to write
    python=$peers/numpy/bin/python
    [ -x "$python" ] || python3 -m venv "$peers/numpy"
    "$python" -m pip install --quiet --disable-pip-version-check "$(grep '^numpy' "$here/requirements.txt")"
fi
if [[ $sections =~ ^(\ --quick)?\ *$ || $sections == *" telemetry "* ]]; then
    "$here/../interop/venv.sh" "$here/../../build/foreign"
fi
exec "$python" "$here/run.py" "$build" "$peers" "$@"
