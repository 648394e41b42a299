#!/bin/bash
# A master: the first one begins the cluster, unless its API answers already; all others join as soon as it answers.
. /etc/kubernetes-bootstrap/common.sh
. /etc/kubernetes-bootstrap/install.sh

NODE_INDEX=$(node_value NODE_INDEX)
NODE_PUBLIC_ADDRESS=$(node_value NODE_PUBLIC_ADDRESS)
API_PUBLIC_ADDRESS=$(node_value API_PUBLIC_ADDRESS)
export KUBECONFIG=/etc/kubernetes/admin.conf

# The names under which clients may reach the API, as members of a JSON list.
SANS="\"$API_ADDRESS\", \"$NODE_ADDRESS\""
for address in "$API_PUBLIC_ADDRESS" "$NODE_PUBLIC_ADDRESS"; do
  [ -z "$address" ] || SANS="$SANS, \"$address\""
done

# kubeadm takes what it finds here and signs the rest itself.
install_pki() {
  mkdir -p /etc/kubernetes/pki
  cp -r "$BASE/pki/." /etc/kubernetes/pki/
}

api_answers() {
  curl -ksf -o /dev/null --noproxy '*' --max-time 5 "https://$API_ADDRESS:6443/readyz"
}

begin_cluster() {
  step "kubeadm init"
  fill "$BASE/init.yaml" "$STATE/init.yaml"
  kubeadm init --config "$STATE/init.yaml"
}

join_cluster() {
  step "waiting for the API"
  wait_for_api
  step "kubeadm join"
  fill "$BASE/join.yaml" "$STATE/join.yaml"
  join install_pki
}

install_network() {
  step "pod network $NETWORK_DRIVER"
  fetch "$CNI_MANIFEST" "$STATE/cni.yaml"
  if [ "$NETWORK_DRIVER" = flannel ]; then
    sed -i -e "s#10\.244\.0\.0/16#$POD_CIDR#" -e "s#\"vxlan\"#\"$FLANNEL_BACKEND\"#" "$STATE/cni.yaml"
  fi
  if [ -n "$IMAGE_PREFIX" ]; then
    sed -i -E "s#image: *(docker\.io|quay\.io|ghcr\.io)/(calico|flannel-io)/#image: $IMAGE_PREFIX#" "$STATE/cni.yaml"
  fi
  local try
  for try in 1 2 3 4 5; do
    if kubectl apply -f "$STATE/cni.yaml"; then
      return 0
    fi
    sleep $((try * 5))
  done
  return 1
}

install_node
install_pki
if [ "$NODE_INDEX" = 0 ] && ! api_answers; then
  begin_cluster
  install_network
else
  join_cluster
fi
step "end"
