{{/*
One operator in a namespace: the name is the same whatever the release is called, as is that of the
Lease by which operators agree who leads. Helm refuses a second one, because the names are taken.
*/}}
{{- define "resile.name" -}}
resile-operator
{{- end }}

{{/*
Names across the cluster. One that looks after all namespaces has no other beside it; of those that
look after one, each has its own.
*/}}
{{- define "resile.clusterName" -}}
{{- include "resile.name" . }}
{{- if .Values.watchNamespace }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "resile.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "resile.labels" -}}
app.kubernetes.io/name: {{ include "resile.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "resile.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ .Values.serviceAccount.name | quote }}
    namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/*
The rules of the ClusterRole or the Role in files/rbac.yaml, which is a copy of
deploy/operator/rbac.yaml. Takes a list: the root context and the kind.
*/}}
{{- define "resile.rules" -}}
{{- $kind := index . 1 }}
{{- range (index . 0).Files.Get "files/rbac.yaml" | splitList "\n---\n" }}
{{- $document := fromYaml . }}
{{- if eq $document.kind $kind }}
{{- toYaml $document.rules }}
{{- end }}
{{- end }}
{{- end }}
