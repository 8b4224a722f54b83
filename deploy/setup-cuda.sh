#!/bin/sh
# setup-cuda.sh [--find] [FOLDER] - prints the path of an nvcc that can compile kernels/cuda, and installs one if needed.
#
# It looks in CUDA_HOME, then in PATH, then in FOLDER (build/nvcc), for release 12.8 or later, the first with sm_100.
# If there is none, it installs pinned packages of a Python package registry into FOLDER, 300 MB. It writes nothing
# outside FOLDER. --find installs nothing, and ends with 1 if there is none. The program does not need nvcc: it links
# no library of CUDA.
set -eu

# kernels/cuda/resources.tsv was written with these versions.
packages="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85"
oldest_release=1208

say() {
    echo "setup-cuda: $*" >&2
}

install=yes
if [ "${1:-}" = --find ]; then
    install=no
    shift
fi
case "${1:-}" in
-*)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
folder=${1:-$(dirname "$0")/../build/nvcc}

# release NVCC: prints 1300 for 13.0; nothing if NVCC does not run.
release() {
    "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\),.*/\1 \2/p' |
        while read -r major minor; do echo $((major * 100 + minor)); done
}

# use NVCC WHERE: if NVCC is new enough, prints its path and exits.
use() {
    [ -x "$1" ] || return 0
    found=$(release "$1")
    if [ -z "$found" ]; then
        say "$1, of $2, does not run; looking further"
    elif [ "$found" -lt "$oldest_release" ]; then
        say "$1, of $2, is release $((found / 100)).$((found % 100)); 12.8 is the first that knows sm_100; looking further"
    else
        echo "$1"
        exit 0
    fi
}

# Uses what pip has installed. The installation is complete only if the file "installed" is there.
use_folder() {
    [ -f "$folder/installed" ] || return 0
    for nvcc in "$folder"/lib/python*/site-packages/nvidia/*/bin/nvcc; do
        use "$(cd "$(dirname "$nvcc")" && pwd)/nvcc" "$folder"
    done
}

[ -z "${CUDA_HOME:-}" ] || use "$CUDA_HOME/bin/nvcc" CUDA_HOME
nvcc=$(command -v nvcc || true)
[ -z "$nvcc" ] || use "$nvcc" PATH
use_folder
if [ $install = no ]; then
    say "there is no nvcc in CUDA_HOME, PATH or $folder; deploy/setup-cuda.sh installs one into $folder"
    exit 1
fi

case $(uname -m) in
x86_64 | aarch64) ;;
*)
    say "there are no packages of nvcc for $(uname -m); install a toolkit and set CUDA_HOME"
    exit 1
    ;;
esac
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "python3 has no venv, which the installation needs: deploy/setup.sh cuda"
    exit 1
fi
say "installing nvcc into $folder"
mkdir -p "$folder"
rm -f "$folder/installed"
python3 -m venv "$folder" || {
    say "no Python environment could be made in $folder"
    exit 1
}
# shellcheck disable=SC2086 # a list of packages
"$folder/bin/pip" install -q --disable-pip-version-check --no-cache-dir $packages >&2 || {
    say "the packages could not be installed; is a package registry within reach? Or install a toolkit and set CUDA_HOME"
    exit 1
}
# nvcc looks for its libraries in lib64.
for root in "$folder"/lib/python*/site-packages/nvidia/cu13; do
    [ ! -d "$root/lib" ] || [ -e "$root/lib64" ] || ln -s lib "$root/lib64"
done
touch "$folder/installed"
use_folder
say "the packages are installed, but $folder has no nvcc that runs"
exit 1
