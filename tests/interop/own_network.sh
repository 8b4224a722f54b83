#!/usr/bin/env bash
# A test in a network and with a resolv.conf of its own: own_network.sh KVFERRY_BINARY SOURCE_FOLDER SCRIPT on|off (seccomp)
# 77 where neither can be had.
set -euo pipefail
binary=$1 source=$2 script=$3 seccomp=$4
if ! unshare --net --mount true 2>/dev/null; then
    echo "SKIPPED: no network namespace can be made here (unshare --net --mount, as root)" >&2
    exit 77
fi
conf=$(mktemp)
trap 'rm -f "$conf"' EXIT
# One question of a server that does not answer takes longer than the test.
printf 'nameserver 127.0.0.53\noptions timeout:30 attempts:3\n' >"$conf"
export PYTHONPATH=$source/tests/roles
unshare --net --mount bash -c '
    ip link set lo up
    mount --bind "$1" /etc/resolv.conf
    exec python3 -B "$2/tests/interop/$4" "$3" "$2/model/demo" "$5"' - "$conf" "$source" "$binary" "$script" "$seccomp"
