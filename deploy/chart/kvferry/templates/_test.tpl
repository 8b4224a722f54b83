{{/* What the pods of `helm test` have in common. */}}

{{- define "kvferry.testPod" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "kvferry.fullname" $root }}-test-{{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "kvferry.selectorLabels" (dict "root" $root "component" "test") | nindent 4 }}
    {{- include "kvferry.releaseLabels" $root | nindent 4 }}
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  restartPolicy: Never
  activeDeadlineSeconds: {{ $v.tests.deadlineSeconds }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $v.tests.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tests.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    {{- .containers | nindent 4 }}
  volumes:
    - name: tmp
      emptyDir:
        sizeLimit: 16Mi
    {{- if ne $v.tls.mode "off" }}
    - name: tls
      secret:
        secretName: {{ include "kvferry.tlsSecret" $root }}
        defaultMode: 0440
        items:
          - key: ca.crt
            path: ca.crt
    {{- if $v.tests.clientCertificateSecret }}
    {{- include "kvferry.secretVolume" (dict "name" "client" "secret" $v.tests.clientCertificateSecret) | nindent 4 }}
    {{- end }}
    {{- end }}
{{- end -}}

{{- define "kvferry.testToken" -}}
{{- with .Values.tests.token }}
{{- if .existingSecret -}}
- name: KVFERRY_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Keys of each of their containers. */}}
{{- define "kvferry.testContainer" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.tests.resources | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if ne .Values.tls.mode "off" }}
  - name: tls
    mountPath: /etc/kvferry/tls
    readOnly: true
  {{- if .Values.tests.clientCertificateSecret }}
  - name: client
    mountPath: /etc/kvferry/client
    readOnly: true
  {{- end }}
  {{- end }}
{{- end -}}
