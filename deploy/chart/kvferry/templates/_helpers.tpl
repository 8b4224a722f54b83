{{/* Names, labels, the image, and the numbers that several objects must agree on. A component is one of router,
     context, generation, aggregated; templates about one take (dict "root" $ "component" NAME). */}}

{{- define "kvferry.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* 40 bytes at most: a pod of a LeaderWorkerSet has the longest suffix. */}}
{{- define "kvferry.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "kvferry.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The components of this mode, separated by spaces. */}}
{{- define "kvferry.components" -}}
{{- if eq .Values.mode "aggregated" -}}aggregated{{- else -}}router context generation{{- end -}}
{{- end -}}

{{/* The component that clients call. */}}
{{- define "kvferry.front" -}}
{{- if eq .Values.mode "aggregated" -}}aggregated{{- else -}}router{{- end -}}
{{- end -}}

{{/* Whether the component serves OpenAI's HTTP API. */}}
{{- define "kvferry.servesHttp" -}}
{{- if and .root.Values.http.enabled (eq .component (include "kvferry.front" .root)) -}}yes{{- end -}}
{{- end -}}

{{/* The protocol of the HTTP port, for services and URLs. */}}
{{- define "kvferry.httpScheme" -}}
{{- ternary "http" "https" (eq .Values.tls.mode "off") -}}
{{- end -}}

{{/* Whether the component gets a chat template of the operator's. */}}
{{- define "kvferry.hasChatTemplate" -}}
{{- if and .root.Values.chat.existingConfigMap (eq .component (include "kvferry.front" .root)) -}}yes{{- end -}}
{{- end -}}

{{- define "kvferry.componentName" -}}
{{- printf "%s-%s" (include "kvferry.fullname" .root) .component -}}
{{- end -}}

{{/* The command of the program that a component runs. */}}
{{- define "kvferry.command" -}}
{{- get (dict "router" "router" "context" "ctx-worker" "generation" "gen-worker" "aggregated" "serve") .component -}}
{{- end -}}

{{- define "kvferry.isWorker" -}}
{{- if has .component (list "context" "generation") -}}yes{{- end -}}
{{- end -}}

{{- define "kvferry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kvferry.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "kvferry.releaseLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: kvferry
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of objects that belong to one component. */}}
{{- define "kvferry.labels" -}}
{{ include "kvferry.selectorLabels" . }}
{{ include "kvferry.releaseLabels" .root }}
{{- end -}}

{{/* Labels of objects that belong to no component. */}}
{{- define "kvferry.commonLabels" -}}
app.kubernetes.io/name: {{ include "kvferry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{ include "kvferry.releaseLabels" . }}
{{- end -}}

{{/* Endpoint pickers look for llm-d.ai/role. */}}
{{- define "kvferry.roleLabels" -}}
kvferry.io/role: {{ .component }}
{{- if eq .component "context" }}
llm-d.ai/role: prefill
{{- else if eq .component "generation" }}
llm-d.ai/role: decode
{{- else if eq .component "aggregated" }}
llm-d.ai/role: both
{{- end }}
{{- end -}}

{{- define "kvferry.imageOf" -}}
{{- $image := . -}}
{{- $name := ternary (printf "%s/%s" $image.registry $image.repository) $image.repository (ne $image.registry "") -}}
{{- if $image.digest -}}{{ $name }}@{{ $image.digest }}{{- else -}}{{ $name }}:{{ $image.tag }}{{- end -}}
{{- end -}}

{{- define "kvferry.flavour" -}}
{{- (index .root.Values .component "image").flavour | default .root.Values.image.flavour -}}
{{- end -}}

{{/* The device of a worker. */}}
{{- define "kvferry.device" -}}
{{- $device := (index .root.Values .component).device -}}
{{- $flavour := include "kvferry.flavour" . -}}
{{- if and (hasPrefix "cuda:" $device) (ne $flavour "cuda") -}}
{{- fail (printf "%s.device is %s, and the flavour of its image %s, which has no kernels for a GPU: set image.flavour cuda" .component $device $flavour) -}}
{{- end -}}
{{- $device | default (ternary "cuda:0" "cpu" (eq $flavour "cuda")) -}}
{{- end -}}

{{- define "kvferry.image" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (index .root.Values .component "image") -}}
{{- $suffix := ternary "-cuda" "" (eq $image.flavour "cuda") -}}
{{- $_ := set $image "tag" (printf "%s%s" ($image.tag | default .root.Chart.AppVersion) $suffix) -}}
{{- include "kvferry.imageOf" $image -}}
{{- end -}}

{{- define "kvferry.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- $account.name | default (include "kvferry.componentName" .) -}}
{{- else -}}
{{- $account.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* Seconds that a pod needs to end: the delay in which it reports not ready and still accepts requests, the time for its open
     requests, and 5 s to close. */}}
{{- define "kvferry.grace" -}}
{{- $least := add .root.Values.drain.delaySeconds .root.Values.drain.limitSeconds 5 -}}
{{- $given := (index .root.Values .component).terminationGracePeriodSeconds -}}
{{- if and $given (lt (int $given) (int $least)) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d: drain.delaySeconds + drain.limitSeconds + 5 = %d are needed" .component (int $given) (int $least)) -}}
{{- end -}}
{{- $given | default $least -}}
{{- end -}}

{{- define "kvferry.usesApi" -}}
{{- if and (eq .component "router") (eq .root.Values.discovery.type "kubernetes") -}}yes{{- end -}}
{{- end -}}

{{/* host:port of the control ports of a role, as the router looks for them. */}}
{{- define "kvferry.workers" -}}
{{- $service := include "kvferry.componentName" . -}}
{{- if eq .root.Values.discovery.type "kubernetes" -}}
k8s:///{{ .root.Release.Namespace }}/{{ $service }}:control
{{- else -}}
{{ $service }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}:50052
{{- end -}}
{{- end -}}

{{- define "kvferry.host" -}}
{{ include "kvferry.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "kvferry.clusterKeySecret" -}}
{{- .Values.auth.clusterKey.existingSecret | default (printf "%s-cluster-key" (include "kvferry.fullname" .)) -}}
{{- end -}}

{{- define "kvferry.saltKeySecret" -}}
{{- .Values.auth.saltKey.existingSecret | default (printf "%s-salt-key" (include "kvferry.fullname" .)) -}}
{{- end -}}

{{- define "kvferry.tlsSecret" -}}
{{- if eq .Values.tls.mode "certManager" -}}{{ include "kvferry.fullname" . }}-tls{{- else -}}{{ .Values.tls.existingSecret }}{{- end -}}
{{- end -}}

{{- define "kvferry.peerSecret" -}}
{{- if eq .root.Values.mtls.mode "certManager" -}}{{ include "kvferry.componentName" . }}-mtls{{- else -}}{{ index .root.Values.mtls.existingSecrets .component }}{{- end -}}
{{- end -}}

{{/* The path of the model in a container. */}}
{{- define "kvferry.modelPath" -}}
{{- if eq .Values.model.source "demo" -}}
/models/demo
{{- else -}}
{{- printf "/models/model/%s" .Values.model.path | trimSuffix "/" -}}
{{- end -}}
{{- end -}}

{{- define "kvferry.hasManifest" -}}
{{- if or .Values.model.manifest.content .Values.model.manifest.file -}}yes{{- end -}}
{{- end -}}

{{- define "kvferry.manifestPath" -}}
{{- if .Values.model.manifest.content -}}/etc/kvferry/manifest/SHA256SUMS{{- else -}}{{ include "kvferry.modelPath" . }}/{{ .Values.model.manifest.file }}{{- end -}}
{{- end -}}

{{/* Checks that the schema cannot express. */}}
{{- define "kvferry.check" -}}
{{- $v := .Values -}}
{{- if and (eq $v.kv.transport "am-tcp") (ne $v.kv.network "trusted") -}}
{{- fail "kv.transport am-tcp sends KV unencrypted: it needs kv.network trusted" -}}
{{- end -}}
{{- if gt (int $v.kv.ports.first) (int $v.kv.ports.last) -}}
{{- fail (printf "kv.ports.first %d is above kv.ports.last %d" (int $v.kv.ports.first) (int $v.kv.ports.last)) -}}
{{- end -}}
{{- range $port := list 50051 50052 50053 9400 -}}
{{- if and (ge $port (int $v.kv.ports.first)) (le $port (int $v.kv.ports.last)) -}}
{{- fail (printf "kv.ports %d to %d has %d, which another port of the pod uses" (int $v.kv.ports.first) (int $v.kv.ports.last) $port) -}}
{{- end -}}
{{- end -}}
{{- $front := include "kvferry.front" . -}}
{{- $service := (index $v $front).service -}}
{{- range $name := list "port" "nodePort" -}}
{{- $number := int (index $v.http $name) -}}
{{- if and $v.http.enabled (ne $number 0) (eq $number (int (index $service $name))) -}}
{{- fail (printf "http.%s is %d, and %s.service.%s is, too: give each its own" $name $number $front $name) -}}
{{- end -}}
{{- end -}}
{{- if and $v.http.enabled $v.http.nodePort (eq $service.type "ClusterIP") -}}
{{- fail (printf "http.nodePort is %d: it needs %s.service.type NodePort or LoadBalancer" (int $v.http.nodePort) $front) -}}
{{- end -}}
{{- if and $v.auth.clusterKey.content $v.auth.clusterKey.existingSecret -}}
{{- fail "auth.clusterKey: content and existingSecret are both given" -}}
{{- end -}}
{{- if and $v.model.manifest.content $v.model.manifest.file -}}
{{- fail "model.manifest: content and file are both given" -}}
{{- end -}}
{{- if and (eq $v.mode "aggregated") (ne $v.mtls.mode "off") -}}
{{- fail "mtls.mode: the processes of an aggregated pod use its loopback; leave it off" -}}
{{- end -}}
{{- end -}}
