{{- define "streamnb.fullname" -}}
{{- if contains "streamnb" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-streamnb" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "streamnb.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Labels that select the pods of a component. Argument: [root, component]. */}}
{{- define "streamnb.selector" -}}
app.kubernetes.io/name: streamnb
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "streamnb.labels" -}}
app.kubernetes.io/name: streamnb
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "streamnb.config" -}}
{{- .Values.config | default (.Files.Get "files/streamnb.toml") -}}
{{- end -}}

{{/* Fields of every pod. */}}
{{- define "streamnb.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Fields of every container. */}}
{{- define "streamnb.container" -}}
image: {{ include "streamnb.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- $variables := dict -}}
{{- range $key, $value := .Values.settings }}
{{- $_ := set $variables (printf "STREAMNB_%s" ($key | replace "." "__" | upper)) $value -}}
{{- end }}
{{- if eq .Values.storage.kind "mirror" }}
{{- $url := required "storage.kind is mirror, so set storage.mirror.url, such as s3://bucket/prefix" .Values.storage.mirror.url -}}
{{- $_ := set $variables "STREAMNB_SNAPSHOTS__MIRROR" $url -}}
{{- end }}
{{- with $variables }}
env:
{{- range $name, $value := . }}
  - {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}
{{- if and (eq .Values.storage.kind "mirror") .Values.storage.mirror.secretName }}
envFrom:
  - secretRef: {name: {{ .Values.storage.mirror.secretName }}}
{{- end }}
{{- end -}}

{{/* Probes that ask a port. Argument: [port, seconds between two questions at the start, how many]. */}}
{{- define "streamnb.alive" -}}
startupProbe:
  httpGet: {path: /live, port: {{ index . 0 }}}
  periodSeconds: {{ index . 1 }}
  failureThreshold: {{ index . 2 }}
livenessProbe:
  httpGet: {path: /live, port: {{ index . 0 }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{- define "streamnb.ready" -}}
readinessProbe:
  httpGet: {path: /ready, port: {{ . }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* The node of the first learner, whose volume a replica mounts. */}}
{{- define "streamnb.near" -}}
{{- if eq .Values.storage.kind "volumes" -}}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {statefulset.kubernetes.io/pod-name: {{ include "streamnb.fullname" . }}-learner-0}
{{- end -}}
{{- end -}}

{{/* The volume of snapshots of a pod that follows the learner. */}}
{{- define "streamnb.snapshots" -}}
- name: snapshots
{{- if eq .Values.storage.kind "volumes" }}
  persistentVolumeClaim: {claimName: snapshots-{{ include "streamnb.fullname" . }}-learner-0}
{{- else if eq .Values.storage.kind "shared" }}
  persistentVolumeClaim: {claimName: {{ include "streamnb.fullname" . }}-snapshots}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end -}}

{{- define "streamnb.claim" -}}
accessModes: [{{ eq .Values.storage.kind "shared" | ternary "ReadWriteMany" "ReadWriteOnce" }}]
{{- with .Values.storage.className }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .Values.storage.size }}}
{{- end -}}

{{- define "streamnb.checksum" -}}
checksum/config: {{ include "streamnb.config" . | sha256sum }}
{{- end -}}
