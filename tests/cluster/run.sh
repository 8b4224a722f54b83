#!/usr/bin/env bash
# run.sh KVFERRY KVFERRY_NEXT SOURCE TOOLS [fake|real|WHAT-real_node.py-takes]... - the chart and the image on a cluster.
#
# Fetches and builds what is missing, then: every values file of the chart on fake nodes, and the image on a real kubelet.
# KVFERRY_NEXT is the same program of the next protocol revision. Prints `N passed, N failed`. Exit status 77, with
# a line: this machine cannot run it.
set -euo pipefail
kvferry=$1 next=$2 source=$3 tools=$4
shift 4
here=$source/tests/cluster
parts=${*:-fake document defaults secure}
export KVK_CACHE=$tools/cluster KVK_MODE=kubelet

skip() {
    echo "SKIPPED: $1: nothing was tried on a cluster" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || skip "this is not root"
for program in containerd ctr runc unshare ip openssl nft; do
    command -v $program >/dev/null || skip "$program is missing (deploy/setup.sh nightly)"
done
[ -x /usr/lib/cni/ptp ] || skip "containernetworking-plugins are missing (deploy/setup.sh nightly)"
[ -d /sys/fs/cgroup/memory ] || skip "the kubelet is run with version 1 of cgroups, which are not here"
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || skip "the kernel has no overlayfs"
unshare -m -n -p -C -i -u -f --mount-proc true || skip "no namespaces may be made"

mkdir -p "$KVK_CACHE"
exec 7>"$KVK_CACHE/lock"
flock 7
"$source/tests/deploy/tools.sh" "$tools"
"$source/tests/interop/tools.sh" "$source" "$tools"
[ ! -x "$tools/go-venv/bin/go" ] || export PATH="$tools/go-venv/bin:$PATH"
"$here/programs.sh" "$KVK_CACHE"

export GRPC_VERBOSITY=ERROR PYTHONPATH="$tools/stubs:$source/tests/roles:$here" PYTHONDONTWRITEBYTECODE=1
finish() {
    [ ! -d "$KVK_CACHE/state" ] || "$here/cluster.sh" down || true
}
trap finish EXIT
n_passed=0 n_failed=0
# counted COMMAND...: adds up what its last line says; a command that says nothing has failed once
counted() {
    local last
    "$@" 2>&1 | tee "$KVK_CACHE/output" || true
    last=$(tail -n 1 "$KVK_CACHE/output")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        n_passed=$((n_passed + BASH_REMATCH[1])) n_failed=$((n_failed + BASH_REMATCH[2]))
    else
        n_failed=$((n_failed + 1))
    fi
}

real=
for part in $parts; do
    case $part in
    fake)
        KVK_MODE=fake counted "$tools/deploy-venv/bin/python" "$here/fake_nodes.py" "$source" "$tools"
        ;;
    real) real="document defaults secure" ;;
    *) real="$real $part" ;;
    esac
done
if [ -n "$real" ]; then
    KVK_NODES=0 KVK_GPU_NODES=0 "$here/cluster.sh" up >/dev/null
    "$here/load_images.sh" "$kvferry" "$next" "$source" "$KVK_CACHE"
    # shellcheck disable=SC2086 # a list of words
    counted "$tools/venv/bin/python" "$here/real_node.py" "$kvferry" "$source" "$tools" "$KVK_CACHE" $real
fi
echo "$n_passed passed, $n_failed failed"
[ $n_failed = 0 ] && [ $n_passed -gt 0 ]
