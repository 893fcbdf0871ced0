{{- define "afterbay.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "afterbay.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "afterbay.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* Called with root and component. */}}
{{- define "afterbay.selector" -}}
app.kubernetes.io/name: afterbay
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "afterbay.labels" -}}
{{ include "afterbay.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "afterbay.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "afterbay.tokenSecret" -}}
{{- if .Values.auth.existingSecret -}}
{{ .Values.auth.existingSecret }}
{{- else if .Values.auth.token -}}
{{ include "afterbay.name" . }}-token
{{- else if not .Values.auth.insecure -}}
{{ fail "auth: set existingSecret or token, or insecure: true if each pod may read and write topics" }}
{{- end -}}
{{- end }}

{{/* The kind of the workload that runs pipelines. */}}
{{- define "afterbay.pipelineKind" -}}
{{ if or (eq .Values.log.kind "embedded") .Values.pipeline.persistence.enabled }}StatefulSet{{ else }}Deployment{{ end }}
{{- end }}

{{/* The ConfigMap with the files of a component: its own, or that of the values. */}}
{{- define "afterbay.configMap" -}}
{{ .values.existingConfigMap | default (printf "%s-%s" (include "afterbay.name" .root) .component) }}
{{- end }}

{{- define "afterbay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "afterbay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Environment of every container. */}}
{{- define "afterbay.env" -}}
- {name: GOMEMLIMIT, value: {{ .values.goMemLimit | quote }}}
{{- $secret := include "afterbay.tokenSecret" .root }}
{{- if $secret }}
- name: AFTERBAY_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ $secret }}, key: token}
{{- end }}
{{- if and (eq .root.Values.log.kind "kafka") (ne .component "serve") }}
- {name: AFTERBAY_ENGINE, value: {{ required "log.url: name the brokers, such as kafka://kafka:9092" .root.Values.log.url | quote }}}
{{- if .root.Values.log.secret }}
- name: AFTERBAY_KAFKA_USER
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.log.secret }}, key: username}
- name: AFTERBAY_KAFKA_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.log.secret }}, key: password}
{{- end }}
{{- end }}
{{- with .values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "afterbay.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: files, mountPath: /etc/afterbay/{{ .component }}, readOnly: true}
{{- if and (eq .root.Values.log.kind "kafka") .root.Values.log.secret (ne .component "serve") }}
- {name: kafka, mountPath: /etc/afterbay/kafka, readOnly: true}
{{- end }}
{{- with .values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "afterbay.volumes" -}}
- {name: tmp, emptyDir: {}}
- name: files
  configMap: {name: {{ include "afterbay.configMap" . }}}
{{- if and (eq .root.Values.log.kind "kafka") .root.Values.log.secret (ne .component "serve") }}
- name: kafka
  secret: {secretName: {{ .root.Values.log.secret }}}
{{- end }}
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What all pods have in common, above their containers. */}}
{{- define "afterbay.pod" -}}
serviceAccountName: {{ include "afterbay.serviceAccount" .root }}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ include "afterbay.podSecurity" .root | nindent 2 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "afterbay.selector" . | nindent 8 }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Annotations of pods: a changed ConfigMap replaces them. */}}
{{- define "afterbay.annotations" -}}
checksum/files: {{ toJson .values.files | sha256sum }}
{{- with .values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "afterbay.container" -}}
image: {{ include "afterbay.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env: {{ include "afterbay.env" . | nindent 2 }}
resources: {{ toYaml .values.resources | nindent 2 }}
securityContext: {{ include "afterbay.containerSecurity" .root | nindent 2 }}
{{- end }}
