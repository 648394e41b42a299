#!/bin/bash
# A worker: installs while the masters do, joins as soon as the API answers.
. /etc/kubernetes-bootstrap/common.sh
. /etc/kubernetes-bootstrap/install.sh

NEWCOMERS=$(node_value NEWCOMERS)

# Has the masters see off the workers that this one replaces, and waits until they have: whoever asked for it removes those then. They do so for
# the order that it brings with it. Until when it waits is for them to know: they drain no longer.
replace_workers() {
  step "handing over"
  local list until end said order
  order=$(cat "$BASE/order" 2> /dev/null || true)
  list=$(replaced_nodes | paste -sd ,)
  until=$((SECONDS + 300 + DRAIN_SECONDS * $(replaced_nodes | wc -l)))
  [ "$until" -lt "$((WAIT_SECONDS - 120))" ] || until=$((WAIT_SECONDS - 120))
  end=$(($(date +%s) + until - SECONDS))
  while [ "$SECONDS" -lt "$until" ]; do
    kubectl --request-timeout 20s annotate node "$NODE_NAME" --overwrite \
      "magnum.openstack.org/replaces=$list" "magnum.openstack.org/newcomers=$NEWCOMERS" "magnum.openstack.org/order=$order" \
      "magnum.openstack.org/until=$end" || true
    # Who bears it is looked at soon.
    kubectl --request-timeout 20s label node "$NODE_NAME" --overwrite magnum.openstack.org/replaces= || true
    said=$(kubectl --request-timeout 20s get node "$NODE_NAME" -o 'jsonpath={.metadata.annotations.magnum\.openstack\.org/replaced}' || true)
    if [ "$said" = "$list" ]; then
      kubectl --request-timeout 20s label node "$NODE_NAME" magnum.openstack.org/replaces- || true
      return 0
    fi
    sleep 5
  done
  # They would be taken away with all that runs on them.
  echo "$list were not seen off in time" >&2
  return 1
}

join_worker() {
  kubeadm join --config "$STATE/join.yaml"
}

# Whether the cluster knows this node by what kubelet was certified with.
is_node() {
  kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout 20s get node "$NODE_NAME" -o name > /dev/null
}

# What the node was given is trusted, not what the cluster tells of itself while its authorities are replaced. What is compared is changed last:
# whoever is cut off before does it again.
trust_authorities() {
  step "authorities"
  if [ "$(cat /etc/kubernetes/pki/ca.crt)" != "$(cat "$BASE/pki/ca.crt")" ]; then
    trust_in /etc/kubernetes/kubelet.conf
    cp "$BASE/pki/ca.crt" /etc/kubernetes/pki/ca.crt
    systemctl restart kubelet.service
  fi
}

install_node
step "waiting for the API"
wait_for_api
if ! has_joined /etc/kubernetes/kubelet.conf is_node; then
  step "kubeadm join"
  fill "$BASE/join.yaml" "$STATE/join.yaml"
  join join_worker true
fi
trust_authorities
export KUBECONFIG=/etc/kubernetes/kubelet.conf
wait_for_node
if [ -n "$REPLACES" ]; then
  replace_workers
fi
step "end"
