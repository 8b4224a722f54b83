#!/usr/bin/env bash
# root.sh FOLDER: the libraries of a build for 64-bit Arm, from this distribution, unpacked into FOLDER/root. It installs nothing and
# needs no root; apt keeps its lists of arm64 in FOLDER/apt. If FOLDER/root is whole, it does nothing.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
[ ! -e "$out/whole" ] || exit 0

packages=(libc6-dev libgrpc-dev zlib1g-dev libprotobuf-c-dev libucx-dev libjansson-dev libpcre2-dev libutf8proc-dev libyaml-dev
    libevent-dev libxxhash-dev libssl-dev libseccomp-dev libedit-dev libcriterion-dev)
mkdir -p "$out/apt/state/lists/partial" "$out/apt/cache/archives/partial"
: >"$out/apt/status"
options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$out/apt/state" -o Dir::State::status="$out/apt/status"
    -o Dir::Cache="$out/apt/cache" -o APT::Install-Recommends=false)
[ "$(id -u)" != 0 ] || options+=(-o APT::Sandbox::User=root)
apt-get "${options[@]}" update
apt-get "${options[@]}" -y --download-only install "${packages[@]}"
rm -rf "$out/root"
mkdir "$out/root"
for package in "$out"/apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$out/root"
done
touch "$out/whole"
