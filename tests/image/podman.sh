#!/bin/bash
# podman.sh KVFERRY SOURCE - the image loads into podman and generates text there: read-only, uid 65532, no capability.
#
# Storage and containers are in a folder of the test's own. Exit status 77, with a line: there is no podman here, or it
# cannot run a container.
set -eu
work=$(mktemp -d)
name=kvferry-test-$$
runtime=crun
podman() { command podman --root "$work/root" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime "$runtime" "$@"; }
finish() {
    podman rm --force --time 0 $name >/dev/null 2>&1 || true
    podman rmi --all --force >/dev/null 2>&1 || true
    find /sys/fs/cgroup -depth -type d -path "*/$name*" -exec rmdir {} + 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
skip() {
    echo "SKIPPED: $1: the image is not run by podman" >&2
    exit 77
}
command -v podman >/dev/null || skip "there is no podman"
SOURCE_DATE_EPOCH=1700000000 REVISION=0123abcd "$2/deploy/image/make.sh" "$1" "$work/kvferry.tar"
podman load -i "$work/kvferry.tar"
image=$(podman images --format '{{.Repository}}:{{.Tag}}' | grep '/kvferry:')
[ "$(podman image inspect "$image" --format '{{.User}}')" = 65532:65532 ]
restricted="--read-only --read-only-tmpfs=false --user 65532:65532 --cap-drop all --security-opt no-new-privileges --network host --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --cgroup-parent /$name"
try() { # shellcheck disable=SC2086 # a list of flags
    podman run --rm $restricted "$image" version >"$work/version" 2>>"$work/why"
}
if ! try; then
    runtime=runc # crun wants no hybrid of cgroups
    try || { cat "$work/why" >&2; skip "podman runs no container here"; }
fi
grep -q '^kvferry [0-9]' "$work/version"
any=127.0.0.1:0
# shellcheck disable=SC2086
podman run --detach --name $name $restricted "$image" serve /models/demo --grpc-address $any \
    --http-address $any --control-address $any --health-address $any --metrics-address $any >/dev/null
tries=0
until podman logs $name 2>/dev/null | grep -q 'ready in .* s$'; do
    tries=$((tries + 1))
    [ $tries -le 300 ] || { podman logs $name >&2; exit 1; }
    sleep 0.2
done
address=$(podman logs $name 2>/dev/null | sed -n 's/^kvferry .* at \([0-9.:]*\) and .*/\1/p')
[ -n "$address" ] || { podman logs $name >&2; exit 1; }
# shellcheck disable=SC2086
podman run --rm --interactive $restricted "$image" generate --server "$address" --verbose --max-tokens 32 \
    <"$2/cli/demo_prompt.txt" >"$work/text" 2>"$work/figures" || { cat "$work/figures" >&2; exit 1; }
[ -s "$work/text" ]
grep '^  KV  *[1-9]' "$work/figures"
podman stop --time 60 $name >/dev/null
[ "$(podman inspect $name --format '{{.State.ExitCode}}')" = 0 ]
echo "podman: generated $(wc -c <"$work/text") bytes of text, KV crossed, the container ended with 0"
