{{/* Service and Deployment of a component that answers over HTTP. Argument: [root, component, replicas, values]. */}}
{{- define "streamnb.http" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $labels := include "streamnb.selector" (list $root $component) -}}
{{- $name := printf "%s-%s" (include "streamnb.fullname" $root) $component -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "streamnb.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $component }}
    streamnb/job: streamnb-{{ $component }}
spec:
  selector: {{ $labels | nindent 4 }}
  ports:
    - {name: http, port: 80, targetPort: http}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "streamnb.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $component }}
spec:
  replicas: {{ index . 2 }}
  selector:
    matchLabels: {{ $labels | nindent 6 }}
  template:
    metadata:
      labels: {{ $labels | nindent 8 }}
      annotations: {{ include "streamnb.checksum" $root | nindent 8 }}
    spec:
      {{- include "streamnb.pod" $root | nindent 6 }}
      {{- include "streamnb.near" $root | nindent 6 }}
      containers:
        - name: {{ $component }}
          {{- include "streamnb.container" $root | nindent 10 }}
          args:
            - {{ $component }}
            - --config=/etc/streamnb/streamnb.toml
            - --listen=0.0.0.0:8000
            - --token-file=/run/secrets/streamnb/token
            - --behind-proxy
          ports:
            - {name: http, containerPort: 8000}
          {{- include "streamnb.alive" (list "http" 5 60) | nindent 10 }}
          {{- include "streamnb.ready" "http" | nindent 10 }}
          resources: {{ toYaml (index . 3).resources | nindent 12 }}
          volumeMounts:
            - {name: settings, mountPath: /etc/streamnb, readOnly: true}
            - {name: tmp, mountPath: /tmp}
            - {name: token, mountPath: /run/secrets/streamnb, readOnly: true}
            - {name: snapshots, mountPath: /var/lib/streamnb{{ if ne $root.Values.storage.kind "mirror" }}, readOnly: true{{ end }}}
      volumes:
        - name: settings
          configMap: {name: {{ include "streamnb.fullname" $root }}}
        - name: tmp
          emptyDir: {}
        - name: token
          secret: {secretName: {{ $root.Values.token.secretName }}, defaultMode: 0440}
        {{- include "streamnb.snapshots" $root | nindent 8 }}
{{- end -}}
