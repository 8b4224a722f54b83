{{/* The pod of a component, the same for every workload. A router mounts the model, too: it reads the tokenizer. */}}

{{- define "kvferry.podMetadata" -}}
labels:
  {{- include "kvferry.labels" . | nindent 2 }}
  {{- include "kvferry.roleLabels" . | nindent 2 }}
  {{- with (index .root.Values .component).podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ include "kvferry.configRows" . | sha256sum }}
  {{- if .root.Values.model.manifest.content }}
  checksum/manifest: {{ .root.Values.model.manifest.content | sha256sum }}
  {{- end }}
  {{- with (index .root.Values .component).podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "kvferry.securityContext" -}}
{{- $own := (index .root.Values .component).securityContext -}}
{{- $context := mergeOverwrite (deepCopy .root.Values.securityContext) $own -}}
{{- if and .root.Values.rdma.enabled (include "kvferry.isWorker" .) -}}
{{- $_ := set $context "capabilities" (mergeOverwrite (deepCopy ($context.capabilities | default dict)) (dict "add" (list "IPC_LOCK"))) -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{- define "kvferry.resources" -}}
{{- $resources := deepCopy (index .root.Values .component).resources -}}
{{- $rdma := .root.Values.rdma -}}
{{- if and $rdma.enabled $rdma.resource (include "kvferry.isWorker" .) -}}
{{- range $side := list "requests" "limits" -}}
{{- $_ := set $resources $side (merge (dict $rdma.resource (toString (int $rdma.count))) (get $resources $side | default dict)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* A kubelet calls gRPC probes only in clear text, so health_tls is off. */}}
{{- define "kvferry.probe" -}}
{{- $probe := index (index .root.Values .component).probes .probe -}}
grpc:
  port: 50053
  service: {{ .probe }}
periodSeconds: {{ $probe.periodSeconds }}
timeoutSeconds: {{ $probe.timeoutSeconds }}
failureThreshold: {{ $probe.failureThreshold }}
{{- end -}}

{{- define "kvferry.modelMount" -}}
{{- if ne .root.Values.model.source "demo" }}
- name: model
  mountPath: /models/model
  readOnly: true
{{- end }}
{{- end -}}

{{- define "kvferry.mounts" -}}
- name: config
  mountPath: /etc/kvferry/config
  readOnly: true
- name: tmp
  mountPath: /tmp
- name: shm
  mountPath: /dev/shm
{{- if ne .component "aggregated" }}
- name: cluster-key
  mountPath: /etc/kvferry/cluster-key
  readOnly: true
{{- if ne .root.Values.mtls.mode "off" }}
- name: peer
  mountPath: /etc/kvferry/peer
  readOnly: true
{{- end }}
{{- end }}
{{- if eq .component (include "kvferry.front" .root) }}
{{- if ne .root.Values.tls.mode "off" }}
- name: tls
  mountPath: /etc/kvferry/tls
  readOnly: true
{{- if and .root.Values.tls.clientCa.enabled .root.Values.tls.clientCa.existingSecret }}
- name: client-ca
  mountPath: /etc/kvferry/client-ca
  readOnly: true
{{- end }}
{{- end }}
{{- if .root.Values.auth.tokens.existingSecret }}
- name: tokens
  mountPath: /etc/kvferry/tokens
  readOnly: true
- name: salt-key
  mountPath: /etc/kvferry/salt-key
  readOnly: true
{{- end }}
{{- end }}
{{- if include "kvferry.hasChatTemplate" . }}
- name: chat
  mountPath: /etc/kvferry/chat
  readOnly: true
{{- end }}
{{- include "kvferry.modelMount" . }}
{{- with (index .root.Values .component).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kvferry.modelVolume" -}}
{{- $model := .root.Values.model -}}
{{- if ne $model.source "demo" }}
- name: model
  {{- if eq $model.source "pvc" }}
  persistentVolumeClaim:
    claimName: {{ $model.pvc.claimName }}
    readOnly: true
  {{- else if eq $model.source "hostPath" }}
  hostPath:
    path: {{ $model.hostPath.path }}
    type: Directory
  {{- else if eq $model.source "image" }}
  image:
    reference: {{ $model.image.reference }}
    pullPolicy: {{ $model.image.pullPolicy }}
  {{- else if eq $model.source "initContainer" }}
  emptyDir:
    sizeLimit: {{ $model.initContainer.sizeLimit }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "kvferry.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
{{- end -}}

{{- define "kvferry.volumes" -}}
{{- $v := .root.Values -}}
{{- $values := index $v .component -}}
- name: config
  configMap:
    name: {{ include "kvferry.componentName" . }}
- name: tmp
  emptyDir:
    sizeLimit: {{ $values.tmp.sizeLimit }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ $values.shm.sizeLimit }}
{{- if ne .component "aggregated" }}
- name: cluster-key
  secret:
    secretName: {{ include "kvferry.clusterKeySecret" .root }}
    defaultMode: 0440
    items:
      - key: {{ $v.auth.clusterKey.key }}
        path: cluster.key
{{- if ne $v.mtls.mode "off" }}
{{ include "kvferry.secretVolume" (dict "name" "peer" "secret" (include "kvferry.peerSecret" .)) }}
{{- end }}
{{- end }}
{{- if eq .component (include "kvferry.front" .root) }}
{{- if ne $v.tls.mode "off" }}
{{ include "kvferry.secretVolume" (dict "name" "tls" "secret" (include "kvferry.tlsSecret" .root)) }}
{{- if and $v.tls.clientCa.enabled $v.tls.clientCa.existingSecret }}
{{ include "kvferry.secretVolume" (dict "name" "client-ca" "secret" $v.tls.clientCa.existingSecret) }}
{{- end }}
{{- end }}
{{- if $v.auth.tokens.existingSecret }}
{{ include "kvferry.secretVolume" (dict "name" "tokens" "secret" $v.auth.tokens.existingSecret) }}
{{ include "kvferry.secretVolume" (dict "name" "salt-key" "secret" (include "kvferry.saltKeySecret" .root)) }}
{{- end }}
{{- end }}
{{- if include "kvferry.hasChatTemplate" . }}
- name: chat
  configMap:
    name: {{ $v.chat.existingConfigMap }}
    items:
      - key: {{ $v.chat.key }}
        path: chat_template.jinja
{{- end }}
{{- include "kvferry.modelVolume" . }}
{{- if $v.model.manifest.content }}
- name: manifest
  configMap:
    name: {{ include "kvferry.fullname" .root }}-manifest
{{- end }}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Init containers: download the model, compare its files with the manifest. */}}
{{- define "kvferry.initContainers" -}}
{{- $v := .root.Values -}}
{{- $fetch := $v.model.initContainer -}}
{{- if eq $v.model.source "initContainer" }}
- name: fetch-model
  image: {{ $fetch.image }}
  {{- with $fetch.command }}
  command:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $fetch.args }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  env:
    - name: MODEL_FOLDER
      value: /models/model
    {{- with $fetch.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.model.authSecret }}
  envFrom:
    - secretRef:
        name: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml $v.securityContext | nindent 4 }}
  {{- with $fetch.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: model
      mountPath: /models/model
    - name: tmp
      mountPath: /tmp
{{- end }}
{{- if include "kvferry.hasManifest" .root }}
- name: check-model
  image: {{ include "kvferry.image" . }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  args:
    - check-model
    - {{ include "kvferry.modelPath" .root }}
    - --manifest={{ include "kvferry.manifestPath" .root }}
  securityContext:
    {{- toYaml $v.securityContext | nindent 4 }}
  resources:
    {{- include "kvferry.resources" . | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    {{- if $v.model.manifest.content }}
    - name: manifest
      mountPath: /etc/kvferry/manifest
      readOnly: true
    {{- end }}
    {{- with include "kvferry.modelMount" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}
{{- with (index $v .component).initContainers }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kvferry.container" -}}
{{- $v := .root.Values -}}
{{- $values := index $v .component -}}
- name: kvferry
  image: {{ include "kvferry.image" . }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  args:
    - {{ include "kvferry.command" . }}
    - {{ include "kvferry.modelPath" .root }}
    - --config=/etc/kvferry/config/kvferry.yaml
    {{- range $values.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- if ne .component "aggregated" }}
    - name: KVFERRY_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    {{- end }}
    {{- if include "kvferry.isWorker" . }}
    - name: KVFERRY_ADVERTISE_ADDRESS
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    {{- end }}
    - name: KVFERRY_STRICT_ENVIRONMENT
      value: {{ ternary "yes" "no" $v.strictEnvironment | quote }}
    {{- with $values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    {{- if eq .component (include "kvferry.front" .root) }}
    - name: grpc
      containerPort: 50051
    {{- end }}
    {{- if include "kvferry.servesHttp" . }}
    - name: http
      containerPort: 8000
    {{- end }}
    {{- if ne .component "aggregated" }}
    - name: control
      containerPort: 50052
    {{- end }}
    - name: health
      containerPort: 50053
    - name: metrics
      containerPort: 9400
  startupProbe:
    {{- include "kvferry.probe" (dict "root" .root "component" .component "probe" "startup") | nindent 4 }}
  readinessProbe:
    {{- include "kvferry.probe" (dict "root" .root "component" .component "probe" "readiness") | nindent 4 }}
  livenessProbe:
    {{- include "kvferry.probe" (dict "root" .root "component" .component "probe" "liveness") | nindent 4 }}
  {{- with $values.lifecycle }}
  lifecycle:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "kvferry.securityContext" . | nindent 4 }}
  resources:
    {{- include "kvferry.resources" . | nindent 4 }}
  volumeMounts:
    {{- include "kvferry.mounts" . | nindent 4 }}
{{- end -}}

{{- define "kvferry.podSpec" -}}
{{- $v := .root.Values -}}
{{- $values := index $v .component -}}
serviceAccountName: {{ include "kvferry.serviceAccount" . }}
automountServiceAccountToken: {{ ternary "true" "false" (ne (include "kvferry.usesApi" .) "") }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "kvferry.grace" . }}
securityContext:
  {{- toYaml (mergeOverwrite (deepCopy $v.podSecurityContext) $values.podSecurityContext) | nindent 2 }}
{{- with $v.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if $values.topologySpreadConstraints }}
  {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "kvferry.selectorLabels" . | nindent 8 }}
  {{- end }}
{{- with include "kvferry.initContainers" . | trim }}
initContainers:
  {{- . | nindent 2 }}
{{- end }}
containers:
  {{- include "kvferry.container" . | nindent 2 }}
  {{- with $values.sidecars }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  {{- include "kvferry.volumes" . | nindent 2 }}
{{- end -}}
