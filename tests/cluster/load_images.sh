#!/usr/bin/env bash
# load_images.sh KVFERRY KVFERRY_NEXT SOURCE CLUSTER - the image of both programs into the node's containerd, as
# registry.example/kvferry:VERSION and VERSION-next.
set -euo pipefail
kvferry=$1 next=$2 source=$3 cluster=$4
version=$("$kvferry" version | sed -n '1s/^[^0-9]*\([0-9][0-9.]*\).*/\1/p')
ctr() { command ctr -a "$cluster/state/containerd.sock" -n k8s.io "$@"; }
load() { # PROGRAM TAG
    "$source/deploy/image/make.sh" "$1" "$cluster/$2.tar"
    ctr images import "$cluster/$2.tar" >/dev/null
    rm "$cluster/$2.tar"*
    ctr images tag --force "docker.io/library/kvferry:$version" "registry.example/kvferry:$2" >/dev/null
}
load "$next" "$version-next"
load "$kvferry" "$version"
ctr images list -q | grep '^registry.example/'
