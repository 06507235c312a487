{{- define "threadkeep.labels" -}}
app.kubernetes.io/name: threadkeep
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "threadkeep.image" -}}
{{ .Values.image.repository }}{{ if not (contains "@" .Values.image.repository) }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "threadkeep.environment" -}}
{{- range $name, $value := .settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
- name: LANGGRAPH_STORE_POSTGRES_DSN_FILE
  value: /run/secrets/threadkeep/app-dsn
- name: THREADKEEP_MASTER_KEY_FILE
  value: /run/secrets/threadkeep/master-key
{{- end }}

{{- define "threadkeep.secrets" -}}
- name: secrets
  secret:
    secretName: {{ .Values.existingSecret.name }}
    defaultMode: 0440
    items:
      - {key: {{ .Values.existingSecret.appDsn }}, path: app-dsn}
      - {key: {{ .Values.existingSecret.masterKey }}, path: master-key}
{{- end }}

{{- define "threadkeep.container" -}}
image: {{ include "threadkeep.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: secrets, mountPath: /run/secrets/threadkeep, readOnly: true}
  - {name: temporary, mountPath: /tmp}
  - {name: data, mountPath: /data}
{{- end }}

{{- define "threadkeep.pod" -}}
serviceAccountName: {{ .Release.Name }}-threadkeep
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "threadkeep.spread" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              app.kubernetes.io/instance: {{ .release }}
              app.kubernetes.io/component: {{ .component }}
{{- end }}
