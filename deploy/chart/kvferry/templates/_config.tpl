{{/* The configuration file of a component: a flat mapping with quoted values. Settings made from chart values come first,
     then `config`, then the `config` of the component; the schema refuses settings of the first kind in these two. */}}

{{- define "kvferry.configRows" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
{{- $component := .component -}}
{{- $rows := dict
      "health_address" ":50053"
      "metrics_address" ":9400"
      "insecure" "yes"
      "drain_delay_ms" (printf "%ds" (int $v.drain.delaySeconds))
      "drain_limit_ms" (printf "%ds" (int $v.drain.limitSeconds))
      "log_level" $v.logging.level
      "log_format" $v.logging.format
      "access_log" (ternary "yes" "no" $v.logging.accessLog)
      "seccomp" (ternary "on" "off" $v.syscallFilter) -}}
{{- with $v.tracing.otlpEndpoint -}}
{{- $_ := set $rows "otlp_endpoint" . -}}
{{- $_ := set $rows "trace_ratio" (toString $v.tracing.ratio) -}}
{{- end -}}
{{- if ne $component "aggregated" -}}
{{- $_ := set $rows "control_address" ":50052" -}}
{{- $_ := set $rows "cluster_key" "/etc/kvferry/cluster-key/cluster.key" -}}
{{- if ne $v.mtls.mode "off" -}}
{{- $_ := set $rows "peer_certificate" "/etc/kvferry/peer/tls.crt" -}}
{{- $_ := set $rows "peer_key" "/etc/kvferry/peer/tls.key" -}}
{{- $_ := set $rows "peer_ca" "/etc/kvferry/peer/ca.crt" -}}
{{- $_ := set $rows "cluster_name" $v.mtls.clusterName -}}
{{- end -}}
{{- end -}}
{{- if eq $component (include "kvferry.front" $root) -}}
{{- $_ := set $rows "grpc_address" ":50051" -}}
{{- $_ := set $rows "http_address" (ternary ":8000" "" $v.http.enabled) -}}
{{- if include "kvferry.hasChatTemplate" . -}}
{{- $_ := set $rows "chat_template" "/etc/kvferry/chat/chat_template.jinja" -}}
{{- end -}}
{{- if ne $v.tls.mode "off" -}}
{{- $_ := set $rows "tls_certificate" "/etc/kvferry/tls/tls.crt" -}}
{{- $_ := set $rows "tls_key" "/etc/kvferry/tls/tls.key" -}}
{{- $_ := set $rows "health_tls" "no" -}}
{{- if $v.tls.clientCa.enabled -}}
{{- $_ := set $rows "tls_client_ca" (printf "/etc/kvferry/%s/%s" (ternary "client-ca" "tls" (ne $v.tls.clientCa.existingSecret "")) $v.tls.clientCa.key) -}}
{{- end -}}
{{- end -}}
{{- if $v.auth.tokens.existingSecret -}}
{{- $_ := set $rows "tokens_file" (printf "/etc/kvferry/tokens/%s" $v.auth.tokens.key) -}}
{{- $_ := set $rows "salt_key_file" (printf "/etc/kvferry/salt-key/%s" $v.auth.saltKey.key) -}}
{{- end -}}
{{- end -}}
{{- if eq $component "router" -}}
{{- range $role := list "context" "generation" -}}
{{- $_ := set $rows (printf "%s_workers" $role) (include "kvferry.workers" (dict "root" $root "component" $role)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $rows "kv_block_tokens" (toString $v.kv.blockTokens) -}}
{{- with $v.model.servedName -}}
{{- $_ := set $rows "served_model_name" . -}}
{{- end -}}
{{- if ne $component "router" -}}
{{- $_ := set $rows "kv_transport" $v.kv.transport -}}
{{- $_ := set $rows "kv_network" $v.kv.network -}}
{{- $_ := set $rows "kv_digest" (ternary "yes" "no" $v.kv.digest) -}}
{{- $_ := set $rows "kv_dtype" $v.kv.dtype -}}
{{- $_ := set $rows "weights" $v.model.weights -}}
{{- with $v.kv.netDevices -}}{{- $_ := set $rows "ucx_net_devices" . -}}{{- end -}}
{{- with $v.model.maxContextTokens -}}{{- $_ := set $rows "max_context_tokens" (toString (int .)) -}}{{- end -}}
{{- $_ := set $rows "device" (include "kvferry.device" .) -}}
{{- with (index $v $component).kvMemory -}}{{- $_ := set $rows "kv_memory" . -}}{{- end -}}
{{- end -}}
{{- if include "kvferry.isWorker" . -}}
{{- $_ := set $rows "ucx_port_range" (printf "%d-%d" (int $v.kv.ports.first) (int $v.kv.ports.last)) -}}
{{- end -}}
{{- if eq $component "aggregated" -}}
{{- $_ := set $rows "n_context_workers" (toString (int $v.aggregated.contextWorkers)) -}}
{{- $_ := set $rows "n_generation_workers" (toString (int $v.aggregated.generationWorkers)) -}}
{{- end -}}
{{- range $key, $value := mergeOverwrite (deepCopy $v.config) (index $v $component).config -}}
{{- $_ := set $rows $key $value -}}
{{- end -}}
{{- range $key, $value := $rows }}
{{ $key }}: {{ include "kvferry.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* Numbers come from Helm as floats: 1048576, not 1.048576e+06. */}}
{{- define "kvferry.text" -}}
{{- if kindIs "bool" . -}}{{ ternary "yes" "no" . }}
{{- else if kindIs "float64" . -}}{{ if eq (floor .) . }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end }}
{{- else -}}{{ . }}
{{- end -}}
{{- end -}}

{{- define "kvferry.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "kvferry.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "kvferry.labels" . | nindent 4 }}
data:
  kvferry.yaml: |
    {{- include "kvferry.configRows" . | trim | nindent 4 }}
{{- end -}}
