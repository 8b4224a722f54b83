#!/usr/bin/env bash
# root.sh FOLDER: what a build for 64-bit Arm needs of this distribution, unpacked into FOLDER. It installs nothing and needs no root; apt
# keeps its lists in FOLDER/apt-*. If FOLDER is whole, it does nothing.
#
#   root/   the libraries that the program is linked with
#   rust/   rustc and cargo of this machine, with Rust's own library for it and for Arm: the distribution's compiler has it in a
#           package of Arm's, and it must be of the same version
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
[ ! -e "$out/whole" ] || [ ! -x "$out/rust/rustc" ] || exit 0

packages=(libc6-dev libgrpc-dev zlib1g-dev libprotobuf-c-dev libucx-dev libjansson-dev libpcre2-dev libutf8proc-dev libyaml-dev
    libevent-dev libxxhash-dev libssl-dev libseccomp-dev libedit-dev libcriterion-dev)

# apt of another kind of machine, of which nothing is installed: apt_of ARCHITECTURE ARGUMENTS
apt_of() {
    local folder=$out/apt-$1 architecture=$1
    shift
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    : >"$folder/status"
    local options=(-q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State="$folder/state"
        -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" -o APT::Install-Recommends=false)
    [ "$(id -u)" != 0 ] || options+=(-o APT::Sandbox::User=root)
    (cd "$folder/cache/archives" && apt-get "${options[@]}" "$@")
}

host=$(dpkg --print-architecture)
apt_of arm64 update
apt_of arm64 -y --download-only install "${packages[@]}"
rm -rf "$out/root" "$out/rust"
mkdir "$out/root" "$out/rust"
for package in "$out"/apt-arm64/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$out/root"
done

apt_of arm64 download libstd-rust-web-dev
apt_of "$host" update
apt_of "$host" -y --download-only install rustc-web
for package in "$out"/apt-arm64/cache/archives/libstd-rust-web-dev_*.deb \
    "$out/apt-$host/cache/archives"/{rustc-web,libstd-rust-web,libllvm}*.deb; do
    dpkg-deb -x "$package" "$out/rust"
done
printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$out/rust/usr/lib/$(uname -m)-linux-gnu" "$out/rust/usr/bin/rustc" >"$out/rust/rustc"
cargo=$(command -v cargo)
printf '#!/bin/sh\nexec "%s" "$@"\n' "$cargo" >"$out/rust/cargo"
chmod 755 "$out/rust/rustc" "$out/rust/cargo"
"$out/rust/rustc" --version
touch "$out/whole"
