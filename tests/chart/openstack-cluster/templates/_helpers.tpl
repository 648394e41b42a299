{{- define "chart.labels" -}}
capi.stackhpc.com/cluster: {{ .ctx.Release.Name }}
capi.stackhpc.com/component: {{ .component }}
capi.stackhpc.com/managed-by: {{ .ctx.Release.Service }}
{{- end }}
{{- define "chart.machine" -}}
{{- $volume := .group.machineRootVolume | default dict -}}
template:
  spec:
    flavor: {{ required "a flavor is needed" .group.machineFlavor }}
    image:
      id: {{ .group.machineImageId | default .ctx.Values.machineImageId }}
    {{- with .ctx.Values.machineSSHKeyName }}
    sshKeyName: {{ . }}
    {{- end }}
    {{- with $volume.diskSize }}
    rootVolume:
      sizeGiB: {{ . }}
    {{- end }}
    identityRef:
      name: {{ .ctx.Values.cloudCredentialsSecretName }}
      cloudName: openstack
{{- end }}
{{- define "chart.template" -}}
{{- include "chart.machine" . | sha256sum | trunc 8 -}}
{{- end }}
