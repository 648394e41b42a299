#!/bin/bash
# Runs on every master, from time to time: sees off workers that new ones replace. A new worker says on its own Node which ones it replaces
# (it may change no other node), and how many do so together; once all these are ready, those that go are drained and taken out of the cluster, and the
# new ones are told.
# Masters that do the same at once do no harm. A worker can have only such workers drained that are of its own group and of another generation.
set -u

export KUBECONFIG=/etc/kubernetes/admin.conf
export PATH=/usr/local/bin:$PATH
DRAIN_SECONDS=$(sed -n "s/^DRAIN_SECONDS='\(.*\)'/\1/p" /etc/kubernetes-bootstrap/node.env)
WORD='{{or (index . "magnum.openstack.org/%s") "-"}}'

word() {
  # shellcheck disable=SC2059 # it is a format
  printf "$WORD" "$1"
}

# Group and generation of a node, from its labels.
KIND="{{with .metadata.labels}}$(word nodegroup)|$(word generation){{end}}"

# A line for each node: group, generation, whom it replaces, together with how many, whom it has replaced, readiness, name.
nodes() {
  kubectl --request-timeout 20s get nodes -o "go-template={{range .items}}$KIND|{{with .metadata.annotations}}$(word replaces)|$(word newcomers)|$(word replaced){{end}}|\
{{range .status.conditions}}{{if eq .type \"Ready\"}}{{.status}}{{end}}{{end}}|{{.metadata.name}}{{\"\\n\"}}{{end}}"
}

see_off() {
  local group=$1 generation=$2 name=$3 kind
  kind=$(kubectl --request-timeout 20s get node "$name" -o "go-template=$KIND" 2> /dev/null) || return 0
  if [ "${kind%%|*}" != "$group" ] || [ "${kind##*|}" = "$generation" ]; then
    echo "$name is not to be replaced by generation $generation of $group"
    return 0
  fi
  kubectl drain "$name" --ignore-daemonsets --delete-emptydir-data --force --timeout "${DRAIN_SECONDS}s" \
    || echo "$name was not drained within $DRAIN_SECONDS seconds"
  kubectl --request-timeout 20s delete node "$name" --ignore-not-found
}

all=$(nodes) || exit 0
waiting=$(printf '%s\n' "$all" | awk -F '|' '$3 != "-" && $3 != "" && $3 != $5')
printf '%s\n' "$waiting" | cut -d '|' -f 1-4 | sort -u | while IFS='|' read -r group generation list newcomers; do
  [ -n "$list" ] || continue
  ready=$(printf '%s\n' "$waiting" | awk -F '|' -v k="$group|$generation|$list" '$1 "|" $2 "|" $3 == k && $6 == "True" { print $7 }')
  # What is no number says nothing of how many come.
  [[ $newcomers =~ ^[1-9][0-9]*$ ]] || continue
  [ "$(printf '%s\n' "$ready" | grep -c .)" -ge "$newcomers" ] || continue
  for name in ${list//,/ }; do
    see_off "$group" "$generation" "$name"
  done
  for name in $ready; do
    kubectl --request-timeout 20s annotate node "$name" "magnum.openstack.org/replaced=$list" --overwrite
  done
done
