#!/bin/bash
# Runs on every master, from time to time: sees off workers that new ones replace. A new worker says on its own Node which ones it replaces
# (it may change no other node), how many do so together, and until when it waits; once all these are ready, those that go are drained and taken
# out of the cluster, and the new ones are told. Who is told lets the old machines be taken away: where anything is unclear nobody is, and the
# next time is soon.
# Masters that do the same at once do no harm. A worker can have only such workers drained that are of its own group and of another generation.
set -u

# A value that all nodes of the cluster have.
setting() {
  sed -n "s/^$1='\(.*\)'/\1/p" /etc/kubernetes-bootstrap/node.env
}

export KUBECONFIG=/etc/kubernetes/admin.conf
PATH=$(setting PROGRAMS):$PATH
export PATH
DRAIN_SECONDS=$(setting DRAIN_SECONDS)
WORD='{{or (index . "magnum.openstack.org/%s") "-"}}'

word() {
  # shellcheck disable=SC2059 # it is a format
  printf "$WORD" "$1"
}

# Group and generation of a node, from its labels.
KIND="{{with .metadata.labels}}$(word nodegroup)|$(word generation){{end}}"

# A line for each node: group, generation, whom it replaces, together with how many, whom it has replaced, until when it waits, readiness, name.
nodes() {
  kubectl --request-timeout 20s get nodes -o "go-template={{range .items}}$KIND|\
{{with .metadata.annotations}}$(word replaces)|$(word newcomers)|$(word replaced)|$(word until){{end}}|\
{{range .status.conditions}}{{if eq .type \"Ready\"}}{{.status}}{{end}}{{end}}|{{.metadata.name}}{{\"\n\"}}{{end}}"
}

# Drains a worker for $left seconds at most, and takes it out of the cluster. Fails where it may still be in it.
see_off() {
  local end=$((SECONDS + left)) rest=$left kind
  # An error of the drain is not the end of its time: the API may be away for a moment, or a webhook deny an eviction. The node is asked for each
  # time: another master may have seen it off meanwhile.
  while :; do
    # No answer is not "gone": the machine would be taken away with all that runs on it.
    kind=$(kubectl --request-timeout 20s get node "$1" --ignore-not-found -o "go-template=$KIND") || return 1
    [ -n "$kind" ] || return 0
    if [ "${kind%%|*}" != "$group" ] || [ "${kind##*|}" = "$generation" ]; then
      echo "$1 is not to be replaced by generation $generation of $group"
      return 0
    fi
    # To kubectl, no seconds are no limit.
    if [ "$rest" -le 0 ]; then
      echo "$1 was not drained in time"
      break
    fi
    timeout "$((rest + 5))" kubectl --request-timeout 60s drain "$1" --ignore-daemonsets --delete-emptydir-data --force --timeout "${rest}s" && break
    sleep 5
    rest=$((end - SECONDS))
  done
  kubectl --request-timeout 20s delete node "$1" --ignore-not-found
}
export -f see_off
export KIND group generation left

all=$(nodes) || exit 0
waiting=$(printf '%s\n' "$all" | awk -F '|' '$3 != "-" && $3 != "" && $3 != $5')
printf '%s\n' "$waiting" | cut -d '|' -f 1-4 | sort -u | while IFS='|' read -r group generation list newcomers; do
  [ -n "$list" ] || continue
  # Those that were told are among them: it may be that another one could not be.
  ready=$(printf '%s\n' "$all" | awk -F '|' -v k="$group|$generation|$list" '$1 "|" $2 "|" $3 == k && $7 == "True"')
  # What is no number says nothing of how many come.
  [[ $newcomers =~ ^[1-9][0-9]*$ ]] || continue
  [ "$(printf '%s\n' "$ready" | grep -c .)" -ge "$newcomers" ] || continue
  # The time of who gives up first. Who has given up may have come for an earlier try; who does not say when was made by an earlier release.
  left=$(printf '%s\n' "$ready" | awk -F '|' -v now="$(date +%s)" -v unsaid="$((DRAIN_SECONDS + 70))" \
    '{ left = $6 ~ /^[0-9]+$/ ? $6 - now : unsaid } left > 0 && (!least || left < least) { least = left } END { print least + 0 }')
  # Ten are seen off side by side: pods that stay on one take no time from the others. Those that wait for their turn are to have as much. What is
  # done beside drains has ten seconds each time, and a minute in the end.
  count=$(tr , '\n' <<< "$list" | wc -l)
  left=$(((left - 60) / ((count + 9) / 10) - 10))
  # The new ones would fail all the same: what they were to replace stays.
  [ "$left" -gt 0 ] || continue
  [ "$left" -lt "$DRAIN_SECONDS" ] || left=$DRAIN_SECONDS
  tr , '\n' <<< "$list" | xargs -d '\n' -n 1 -P 10 bash -c 'see_off "$@"' - || continue
  for name in $(printf '%s\n' "$ready" | cut -d '|' -f 8); do
    kubectl --request-timeout 20s annotate node "$name" "magnum.openstack.org/replaced=$list" --overwrite
  done
done
