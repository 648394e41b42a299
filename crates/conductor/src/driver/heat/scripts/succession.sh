#!/bin/bash
# Runs on every master, from time to time: sees off workers that new ones replace. A new worker says on its own Node (it may change no other
# node) which ones it replaces, how many do so together, and until when it waits; once all these are ready, those that go are drained and taken
# out of the cluster, and the new ones are told. Who is told lets the old machines be taken away: where anything is unclear nobody is, and the
# next time is soon.
# Masters that do the same at once do no harm. What a node says of itself, its labels too, anybody may have written who is root there. So nobody goes
# but by an order that the service has signed: for these nodes, which are of one group, and for so many new ones.
set -u

# A value that all nodes of the cluster have.
setting() {
  sed -n "s/^$1='\(.*\)'/\1/p" /etc/kubernetes-bootstrap/node.env
}

export KUBECONFIG=/etc/kubernetes/admin.conf
PATH=$(setting PROGRAMS):$PATH
export PATH
DRAIN_SECONDS=$(setting DRAIN_SECONDS)

# A word that a node says of itself. Escaped: it may hold what parts words and lines here.
word() {
  printf '{{urlquery (or (index . "magnum.openstack.org/%s") "-")}}|' "$1"
}

# A line for each node: whom it replaces, together with how many, by which order, whom it has replaced, until when it waits, readiness, name.
nodes() {
  kubectl --request-timeout 20s get nodes -o "go-template={{range .items}}\
{{with .metadata.annotations}}$(word replaces)$(word newcomers)$(word order)$(word replaced)$(word until){{else}}-|-|-|-|-|{{end}}\
{{range .status.conditions}}{{if eq .type \"Ready\"}}{{.status}}{{end}}{{end}}|{{.metadata.name}}{{\"\n\"}}{{end}}" | sed 's/%2C/,/g'
}

# The key of one half of HMAC-SHA-256, from $KEY: its digits are as many as a block has bytes.
half() {
  local place byte bytes=
  for ((place = 0; place < 64; place++)); do
    printf -v byte %d "'${KEY:place:1}"
    printf -v byte '\\x%x' $((byte ^ $1))
    bytes+=$byte
  done
  printf %b "$bytes"
}

# What the service signs a text with, in hex.
signature() {
  local inner
  inner=$({ half 54 && printf %s "$1"; } | sha256sum | cut -c 1-64)
  { half 92 && printf %b "$(printf %s "$inner" | sed 's/../\\x&/g')"; } | sha256sum | cut -c 1-64
}

# Whether the service has ordered that these go for so many new ones. While there are two authorities it signs with the keys of both.
is_ordered() {
  local signature
  signature=$(signature "$1 $2")
  [ "${#signature}" = 64 ] && [[ .$3. == *".$signature."* ]]
}

# Drains a worker for $left seconds at most, and takes it out of the cluster. Fails where it may still be in it.
see_off() {
  local end=$((SECONDS + left)) rest=$left node
  # An error of the drain is not the end of its time: the API may be away for a moment, or a webhook deny an eviction. The node is asked for each
  # time: another master may have seen it off meanwhile.
  while :; do
    # No answer is not "gone": the machine would be taken away with all that runs on it.
    node=$(kubectl --request-timeout 20s get node "$1" --ignore-not-found -o 'jsonpath={.metadata.name}') || return 1
    [ -n "$node" ] || return 0
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
export left

# Whether no node bears the label of those that wait: all nodes of a large cluster would be much at every look. The API server is asked for what it
# remembers. Those that an earlier release made have no label, so all are looked at now and then.
is_quiet() {
  [ -n "$(find "$LOOKED" -mmin -2 2> /dev/null)" ] || return 1
  kubectl --request-timeout 20s get --raw '/api/v1/nodes?labelSelector=magnum.openstack.org%2Freplaces&resourceVersion=0' \
    | grep -E '"items": ?(\[\]|null)' > /dev/null
}

LOOKED=/var/lib/kubernetes-bootstrap/looked
if is_quiet; then
  exit 0
fi
all=$(nodes)
# No answer: that was no look.
[ -n "$all" ] || exit 0
touch "$LOOKED"
waiting=$(printf '%s\n' "$all" | awk -F '|' '$1 != "-" && $1 != "" && $1 != $4')
[ -n "$waiting" ] || exit 0
authority=$(cat /etc/kubernetes/pki/ca.key) && [ -n "$authority" ] || exit 1
KEY=$(printf 'orders to masters\n%s' "$authority" | sha256sum | cut -c 1-64)
printf '%s\n' "$waiting" | cut -d '|' -f 1-3 | sort -u | while IFS='|' read -r list newcomers order; do
  # What is no number says nothing of how many come.
  [[ $newcomers =~ ^[1-9][0-9]*$ ]] || continue
  if ! is_ordered "$list" "$newcomers" "$order"; then
    echo "$list are not to be replaced by $newcomers, as far as the service has said"
    continue
  fi
  # Those that come are of the same group, and none of those that go. Those that were told are among them: it may be that another one could not be.
  group=${list%%,*}
  group=${group%-*}
  ready=$(printf '%s\n' "$all" | awk -F '|' -v k="$list|$newcomers|$order" -v group="$group" -v list=",$list," '
    { of = $7; sub(/-[0-9]+$/, "", of) }
    $1 "|" $2 "|" $3 == k && $6 == "True" && of == group && of != $7 && !index(list, "," $7 ",")')
  [ "$(printf '%s\n' "$ready" | grep -c .)" -ge "$newcomers" ] || continue
  # The time of who gives up first, of as many as are to come: others may say any time. Who has given up may have come for an earlier try; who does
  # not say when was made by an earlier release.
  left=$(printf '%s\n' "$ready" | awk -F '|' -v now="$(date +%s)" -v unsaid="$((DRAIN_SECONDS + 70))" \
    '{ left = $5 ~ /^[0-9]+$/ ? $5 - now : unsaid } left > 0 { print (left > 99999 ? 99999 : left) }' | sort -rn | sed "${newcomers}q" | tail -n 1)
  # Ten are seen off side by side: pods that stay on one take no time from the others. Those that wait for their turn are to have as much. What is
  # done beside drains has ten seconds each time, and a minute in the end.
  count=$(tr , '\n' <<< "$list" | wc -l)
  left=$(((left - 60) / ((count + 9) / 10) - 10))
  # The new ones would fail all the same: what they were to replace stays.
  [ "$left" -gt 0 ] || continue
  [ "$left" -lt "$DRAIN_SECONDS" ] || left=$DRAIN_SECONDS
  tr , '\n' <<< "$list" | xargs -d '\n' -n 1 -P 10 bash -c 'see_off "$@"' - || continue
  for name in $(printf '%s\n' "$ready" | cut -d '|' -f 7); do
    kubectl --request-timeout 20s annotate node "$name" "magnum.openstack.org/replaced=$list" --overwrite
  done
done
