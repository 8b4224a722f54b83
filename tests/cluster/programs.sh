#!/usr/bin/env bash
# programs.sh FOLDER - builds what a cluster is made of, pinned, from Go modules into FOLDER/bin, and fetches the CRDs of the
# chart's kinds into FOLDER/crds. What is there already is kept. The first time takes a quarter of an hour on two cores.
set -euo pipefail
folder=$1
here=$(cd "$(dirname "$0")" && pwd)
kubernetes=1.34.4 # its kubelet still takes version 1 of cgroups
etcd=3.6.5        # 3.4, the distribution's, lacks RequestWatchProgress: kwok's watches break every few seconds
kwok=0.8.0
coredns=1.12.4
prometheus_operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
keda=github.com/kedacore/keda/v2@v2.21.0
gateway_api=sigs.k8s.io/gateway-api@v1.4.0
leader_worker_set=sigs.k8s.io/lws@v0.8.0
cert_manager=github.com/cert-manager/cert-manager@v1.18.2
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" CGO_ENABLED=0
mkdir -p "$folder/bin" "$folder/crds"

# module_file MODULE@VERSION KEY: what `go mod download` says of it, such as the Dir of its files
module_file() {
    (cd / && GOFLAGS='' go mod download -json "$1" | sed -n "s/.*\"$2\": \"\(.*\)\".*/\1/p")
}

# `go install` refuses a module with replace lines, as Kubernetes has them for its staging modules: v1.X.Y of it is published
# as v0.X.Y of each of those.
replace_staging() {
    echo "replace ("
    sed -n 's#^\t\(k8s.io/[a-z0-9-]*\) => ./staging.*#\1#p' "$(module_file "k8s.io/kubernetes@v$kubernetes" GoMod)" |
        while read -r module; do printf '\t%s => %s v0.%s\n' "$module" "$module" "${kubernetes#1.}"; done
    echo ")"
}

# main_module NAME MODULE@VERSION [PACKAGE...]: the source folder of a module that requires that one, and uses its packages
main_module() {
    local source=$folder/src/$1 module=$2
    shift 2
    mkdir -p "$source"
    [ ! -f "$source/go.sum" ] || return 0
    {
        printf 'module cluster.test/build\n\ngo 1.26.0\n\nrequire %s %s\n\n' "${module%@*}" "${module#*@}"
        [ "${module%@*}" != k8s.io/kubernetes ] || { echo "godebug default=go1.24"; replace_staging; }
    } >"$source/go.mod"
    if [ $# -gt 0 ]; then
        printf '//go:build tools\n\npackage tools\n\nimport (\n' >"$source/tools.go"
        printf '\t_ "%s"\n' "$@" >>"$source/tools.go"
        echo ")" >>"$source/tools.go"
    fi
    (cd "$source" && GOFLAGS=-mod=mod go mod tidy >tidy.log 2>&1) || { tail -n 5 "$source/tidy.log" >&2; return 1; }
}

# program NAME MODULE_NAME PACKAGE [LINKER_FLAGS]
program() {
    local start=$SECONDS
    [ ! -x "$folder/bin/$1" ] || return 0
    (cd "$folder/src/$2" && nice -n 10 go build -p 2 -trimpath -ldflags "-s -w ${4:-}" -o "$folder/bin/.$1" "$3")
    mv "$folder/bin/.$1" "$folder/bin/$1"
    echo "cluster: built $1 in $((SECONDS - start)) s" >&2
}

kubernetes_programs="kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kube-proxy"
versions=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    minor=${kubernetes#1.}
    versions="$versions -X $package.gitVersion=v$kubernetes -X $package.gitMajor=1 -X $package.gitMinor=${minor%.*}"
    versions="$versions -X $package.gitTreeState=clean"
done
# shellcheck disable=SC2046,SC2086 # lists of words
main_module "k8s-$kubernetes" "k8s.io/kubernetes@v$kubernetes" $(printf 'k8s.io/kubernetes/cmd/%s\n' $kubernetes_programs)
for name in $kubernetes_programs; do
    program "$name" "k8s-$kubernetes" "k8s.io/kubernetes/cmd/$name" "$versions"
done
main_module "etcd-$etcd" "go.etcd.io/etcd/server/v3@v$etcd" go.etcd.io/etcd/server/v3
program etcd "etcd-$etcd" go.etcd.io/etcd/server/v3
main_module "kwok-$kwok" "sigs.k8s.io/kwok@v$kwok" sigs.k8s.io/kwok/cmd/kwok
program kwok "kwok-$kwok" sigs.k8s.io/kwok/cmd/kwok
mkdir -p "$folder/src/coredns-$coredns"
cp "$here/coredns/main.go" "$folder/src/coredns-$coredns/"
main_module "coredns-$coredns" "github.com/coredns/coredns@v$coredns"
program coredns "coredns-$coredns" .
[ -x "$folder/bin/pause" ] || gcc -Os -static -o "$folder/bin/pause" "$here/pause.c"
[ -f "$folder/pause.tar" ] || "$here/mkimage.sh" cluster.test/pause:1 "$folder/bin/pause" "$folder/pause.tar"

# crds MODULE@VERSION FILE...: definitions, without the lines of a helm template that one of them has
crds() {
    local from
    from=$(module_file "$1" Dir)
    shift
    for file in "$@"; do sed '/{{/d' "$from/$file" >"$folder/crds/$(basename "$file")"; done
}
stamp="$prometheus_operator $keda $gateway_api $leader_worker_set $cert_manager"
if [ "$(cat "$folder/crds/.done" 2>/dev/null)" != "$stamp" ]; then
    operator=example/prometheus-operator-crd/monitoring.coreos.com
    crds $prometheus_operator ${operator}_servicemonitors.yaml ${operator}_podmonitors.yaml ${operator}_prometheusrules.yaml
    crds $keda config/crd/bases/keda.sh_scaledobjects.yaml config/crd/bases/keda.sh_triggerauthentications.yaml
    gateway=config/crd/standard/gateway.networking.k8s.io
    crds $gateway_api ${gateway}_gatewayclasses.yaml ${gateway}_gateways.yaml ${gateway}_grpcroutes.yaml ${gateway}_httproutes.yaml
    crds $leader_worker_set config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml
    crds $cert_manager deploy/crds/crd-certificates.yaml
    echo "$stamp" >"$folder/crds/.done"
fi
# the stages by which kwok declares nodes and pods
stages=$(module_file "sigs.k8s.io/kwok@v$kwok" Dir)/kustomize/stage
for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready \
    pod/fast/pod-complete pod/fast/pod-delete; do
    cat "$stages/$stage.yaml"
    echo "---"
done >"$folder/kwok-stages.yaml"
