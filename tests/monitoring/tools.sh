#!/usr/bin/env bash
# Fetches what the tests of metrics, alerts and boards are checked by: tools.sh TOOLS_FOLDER
# prometheus and promtool of the distribution's package, which is unpacked and not installed, so that no
# service starts; and PyYAML. What is there already is kept; callers may run at once.
set -euo pipefail
tools=$1
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$tools"
exec 9>"$tools/lock-monitoring"
flock 9

if [ ! -x "$tools/promtool" ] || [ ! -x "$tools/prometheus" ]; then
    work=$(mktemp -d "$tools/prometheus.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    # Without lists, or with old ones: lists of our own, for which nobody need be root.
    if ! apt-get download -q prometheus >/dev/null 2>&1; then
        mkdir -p lists/partial
        apt-get -o Dir::State::Lists="$work/lists" -q update >/dev/null
        apt-get -o Dir::State::Lists="$work/lists" download -q prometheus >/dev/null
    fi
    dpkg -x prometheus_*.deb .
    mv usr/bin/promtool usr/bin/prometheus "$tools/"
fi
if ! cmp -s "$here/requirements.txt" "$tools/monitoring/requirements.txt"; then
    rm -rf "$tools/monitoring"
    python3 -m venv "$tools/monitoring"
    "$tools/monitoring/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$tools/monitoring/requirements.txt"
fi
