{{/* The workload of a component: a Deployment, or a LeaderWorkerSet with groups of one pod. */}}

{{- define "kvferry.workload" -}}
{{- $values := index .root.Values .component -}}
{{- $isSet := eq $values.workload.kind "LeaderWorkerSet" -}}
apiVersion: {{ ternary "leaderworkerset.x-k8s.io/v1" "apps/v1" $isSet }}
kind: {{ $values.workload.kind }}
metadata:
  name: {{ include "kvferry.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "kvferry.labels" . | nindent 4 }}
  {{- with .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if not $values.autoscaling.enabled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  {{- if $isSet }}
  startupPolicy: LeaderCreated
  rolloutStrategy:
    type: RollingUpdate
    rollingUpdateConfiguration:
      {{- toYaml $values.updateStrategy | nindent 6 }}
  leaderWorkerTemplate:
    size: 1
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      metadata:
        {{- include "kvferry.podMetadata" . | nindent 8 }}
      spec:
        {{- include "kvferry.podSpec" . | nindent 8 }}
  {{- else }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    rollingUpdate:
      {{- toYaml $values.updateStrategy | nindent 6 }}
  selector:
    matchLabels:
      {{- include "kvferry.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      {{- include "kvferry.podMetadata" . | nindent 6 }}
    spec:
      {{- include "kvferry.podSpec" . | nindent 6 }}
  {{- end }}
{{- end -}}

{{/* The configuration and the workload of a component, if the mode has this component. */}}
{{- define "kvferry.component" -}}
{{- if has .component (splitList " " (include "kvferry.components" .root)) -}}
{{- include "kvferry.check" .root -}}
{{ include "kvferry.configMap" . }}
---
{{ include "kvferry.workload" . }}
{{- end -}}
{{- end -}}
