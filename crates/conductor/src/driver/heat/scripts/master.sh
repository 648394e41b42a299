#!/bin/bash
# A master: the first one begins the cluster, unless its API answers already; all others join as soon as it answers. A restart of its machine may cut
# it off at any moment: it goes on with what it has begun, and each step finds what is done.
. /etc/kubernetes-bootstrap/common.sh
. /etc/kubernetes-bootstrap/install.sh
. /etc/kubernetes-bootstrap/calico.sh
. /etc/kubernetes-bootstrap/cilium.sh
. /etc/kubernetes-bootstrap/flannel.sh

NODE_INDEX=$(node_value NODE_INDEX)
NODE_PUBLIC_ADDRESS=$(node_value NODE_PUBLIC_ADDRESS)
API_PUBLIC_ADDRESS=$(node_value API_PUBLIC_ADDRESS)
# Whether the API's address is held by a master: there is no load balancer.
API_HOLDER=$(node_value API_HOLDER)
# Where services get their load balancers.
SUBNET_ID=$(node_value SUBNET_ID)
export KUBECONFIG=/etc/kubernetes/admin.conf

# The names under which clients may reach the API, as members of a JSON list.
SANS="\"$API_ADDRESS\", \"$NODE_ADDRESS\""
for address in "$API_PUBLIC_ADDRESS" "$NODE_PUBLIC_ADDRESS"; do
  [ -z "$address" ] || SANS="$SANS, \"$address\""
done

# Documents come in one file, a line for each: another character stands for the ends of their own lines.
unpack_documents() {
  local name text
  mkdir -p "$BASE/addons" "$BASE/pki/etcd"
  while read -r name text; do
    install -m 0600 /dev/null "$BASE/$name"
    tr '\037' '\n' <<< "$text" > "$BASE/$name"
  done < "$BASE/documents"
}

# How the API server keeps secrets in etcd, in a cluster that has a key for it; all its masters know the same. The key leaves the unit, which
# everybody on this machine can read, once it is kept: a second start finds it there.
secrets_at_rest() {
  local key file="$BASE/secrets-at-rest.json"
  grep -q '^SECRETS_KEY=' "$UNIT" || return 0
  key=$(node_value SECRETS_KEY)
  if [ -n "$key" ]; then
    install -m 0600 /dev/null "$file.new"
    cat > "$file.new" << EOF
{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{"resources": ["secrets"], "providers": [
 {"secretbox": {"keys": [{"name": "cluster", "secret": "$key"}]}}, {"identity": {}}]}]}
EOF
    mv "$file.new" "$file"
    sync
    sed -i 's/^SECRETS_KEY=.*/SECRETS_KEY=/' "$UNIT"
  fi
  if [ ! -s "$file" ]; then
    echo "the key for secrets is missing" >&2
    return 1
  fi
}

# kubeadm takes what it finds here and signs the rest itself.
install_pki() {
  mkdir -p /etc/kubernetes/pki
  cp -r "$BASE/pki/." /etc/kubernetes/pki/
  sed '/END CERTIFICATE/q' "$BASE/pki/ca.crt" > /etc/kubernetes/pki/signing-ca.crt
}

# Whether the cluster is this master's to begin. One that has begun it goes on: the API that answers may be its own. One that has tried to join begins
# none beside the other, though it does not answer.
begins_cluster() {
  [ ! -e "$STATE/begun" ] || return 0
  [ "$NODE_INDEX" = 0 ] && [ ! -e "$STATE/joining" ] && ! api_answers "$API_ADDRESS"
}

begin_cluster() {
  mark begun
  if [ -n "$API_HOLDER" ]; then
    step "address of the API"
    touch "$STATE/holds-api-address"
    systemctl enable --now kubernetes-api-address.service
    until_holding
  fi
  if [ -e "$STATE/joined" ]; then
    step "waiting for the API"
  else
    init_cluster
  fi
  wait_for_api
  hold_address
}

# Where it was cut off nobody knows how far it came. So all of it is done over what is there: etcd keeps what it has, and others may have joined. What
# kubeadm has signed may be half written, and is signed anew by the same authorities.
init_cluster() {
  local further=()
  step "kubeadm init"
  begin_to_join
  fill "$BASE/init.yaml" "$STATE/init.yaml"
  rm -rf /etc/kubernetes/pki /etc/kubernetes/*.conf
  install_pki
  # It asks for a machine on which nothing is.
  [ ! -e /etc/kubernetes/manifests/etcd.yaml ] || further=(--skip-phases preflight)
  kubeadm init --config "$STATE/init.yaml" --skip-token-print "${further[@]}"
  mark joined
}

join_cluster() {
  step "waiting for the API"
  wait_for_api
  fill "$BASE/join.yaml" "$STATE/join.yaml"
  if ! has_joined /etc/kubernetes/manifests/etcd.yaml is_master; then
    [ -z "$GENERATION" ] || announce
    step "kubeadm join"
    join join_master install_pki
  fi
  trust_in /etc/kubernetes/*.conf
  certify
  if [ -n "$GENERATION" ]; then
    # Not before: it marks this machine's node as well.
    kubeadm init phase upload-config kubelet --config "$STATE/init.yaml"
  fi
}

# Has this master's API certified for its own address outside. kubeadm has taken those that the cluster's configuration tells, the first master's:
# masters of one generation come together, and do not announce their own. The API server finds the new certificate itself.
certify() {
  if [ -z "$NODE_PUBLIC_ADDRESS" ] || [ -n "$GENERATION" ]; then
    return 0
  fi
  step "certificate of the API"
  fill "$BASE/init.yaml" "$STATE/init.yaml"
  # It would keep what is there, or refuse it.
  rm -f /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key
  kubeadm init phase certs apiserver --config "$STATE/init.yaml"
}

# While there are two authorities: kubeadm has its kubeconfig trust the one that signs, and then asks masters of the other one.
join_master() {
  local config="$STATE/join.yaml"
  if [ "$(grep -c 'END CERTIFICATE' "$BASE/pki/ca.crt")" -lt 2 ]; then
    kubeadm join --config "$config"
    return
  fi
  kubeadm join phase control-plane-prepare kubeconfig --config "$config" && trust_in /etc/kubernetes/*.conf \
    && kubeadm join --config "$config" --skip-phases control-plane-prepare/kubeconfig
}

# Whether this is a master: its own API is ready only with a voter of etcd. Without it the others may have no quorum, so it is not put back, whatever
# fails then. What comes last in a join may not have been done.
is_master() {
  api_answers "$NODE_ADDRESS" || return 1
  step "end of kubeadm join"
  repeatedly kubeadm join phase control-plane-join mark-control-plane --config "$STATE/join.yaml" || exit 1
}

# What masters of this generation are made with becomes the cluster's configuration, by which kubeadm makes them.
announce() {
  step "configuration of the cluster"
  local phase admin=/etc/kubernetes/super-admin.conf
  fill "$BASE/init.yaml" "$STATE/init.yaml"
  # Of one that was cut off, which kubeadm would take for another authority's.
  rm -f "$admin"
  kubeadm init phase kubeconfig super-admin --config "$STATE/init.yaml"
  trust_in "$admin"
  for phase in "upload-config kubeadm" "bootstrap-token --skip-token-print"; do
    # shellcheck disable=SC2086 # two words
    kubeadm init phase $phase --config "$STATE/init.yaml" --kubeconfig "$admin"
  done
  forget_tokens "$admin"
  [ -z "$REPLACES" ] || KUBECONFIG=$admin clear_etcd
  rm -f "$admin"
}

# Takes out of etcd what nobody can join beside; `see_off` comes too late for it. Kubeadm begins nothing while a member does not answer, and etcd
# takes nobody in while a voter is away or another one is a learner. Masters come one by one: a learner, or one that was never started (it has no
# name), was left by a join that was cut off. Of voters only those go that this master replaces: any other one is to come back. Nobody is taken
# for dead at one look, he may be starting; nor where none is found well, for then it is etcd that has a fault, or who asks.
# It fails for nothing: what it cannot do it tells, and the join says what it lacks.
clear_etcd() {
  step "members of etcd"
  local ETCD_POD listed answers="" stale looks=0 id name end=$((SECONDS + 180))
  until [ "$looks" = 3 ]; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "no member of etcd tells of the others: etcd has no quorum, or cannot be asked"
      return 0
    fi
    if look_at_etcd; then
      looks=$((looks + 1))
      stale=$(awk -F ', ' -v old=" $(replaced_nodes | tr '\n' ' ')" -v answers="$answers" '{
        is_old = $3 != "" && index(old, " " $3 " ")
        is_dead = index(answers, " is healthy") && !index(answers, $5 " is healthy")
        if ($2 != "started" || $NF == "true" || is_old && is_dead) print $1, is_old ? $3 : ""
      }' <<< "$listed")
      [ -n "$stale" ] || return 0
    fi
    sleep 5
  done
  while [ "$SECONDS" -lt "$end" ] && read -r id name; do
    echo "member $id of etcd is in the way"
    repeatedly etcdctl member remove "$id" || continue
    # Of a machine that is gone as well no pod could be drained; another one is drained in its turn.
    if [ -n "$name" ] && [ "$(kubectl --request-timeout 20s get node "$name" --ignore-not-found \
      -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = Unknown ]; then
      kubectl --request-timeout 20s delete node "$name" --ignore-not-found || true
    fi
  done <<< "$stale"
}

# Finds a member that knows the others (only with a quorum does it; a learner does not tell) and has it ask how each of them is. A pod may be
# said to be ready when its machine is gone, until somebody notices.
look_at_etcd() {
  local pods
  pods=$(kubectl --request-timeout 20s -n kube-system get pods -l component=etcd,tier=control-plane \
    -o 'jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' \
    | awk '$2 == "True" { print $1 }') || return 1
  for ETCD_POD in $pods; do
    listed=$(etcdctl member list) || continue
    # That one of them is not well is an answer, too.
    answers+=$(etcdctl endpoint health --cluster 2>&1 | tr '\n' ' ') || true
    return 0
  done
  return 1
}

# Removes the tokens by which nodes of former generations joined, where this one has others: their authority is trusted no more.
forget_tokens() {
  local known name description
  known=$(sed -n 's/^ *"token": "\([a-z0-9]*\)\..*/bootstrap-token-\1/p' "$STATE/init.yaml")
  kubectl --kubeconfig "$1" --request-timeout 60s -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token \
    -o 'go-template={{range .items}}{{.metadata.name}} {{with .data.description}}{{base64decode .}}{{end}}{{"\n"}}{{end}}' > "$STATE/tokens"
  while read -r name description; do
    if [ "$description" = "nodes of this cluster" ] && ! grep -qxF "$name" <<< "$known"; then
      kubectl --kubeconfig "$1" --request-timeout 60s -n kube-system delete secret "$name" --ignore-not-found
    fi
  done < "$STATE/tokens"
}

# Makes this master the holder of the API's address, and waits until it is.
hold_address() {
  [ -n "$API_HOLDER" ] || return 0
  step "holding the address of the API"
  systemctl enable --now kubernetes-api-address.service
  kubectl --server "https://$NODE_ADDRESS:6443" apply -f - << EOF
{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "magnum-api-address", "namespace": "kube-system"},
 "spec": {"holderIdentity": "$NODE_NAME"}}
EOF
  until_holding
  wait_for_api
}

until_holding() {
  until ip -o -4 address show | grep -qF " $API_ADDRESS/32 "; do
    if [ "$SECONDS" -ge "$WAIT_SECONDS" ]; then
      echo "$API_ADDRESS is not held" >&2
      return 1
    fi
    sleep 1
  done
}

# From here on this master's own API server is asked: behind the load balancer is one whose etcd is about to be taken away, which goes on
# taking connections until its machine is gone.
ask_own_api() {
  step "API of this master"
  install -m 0600 /dev/null "$STATE/own.conf"
  sed "s#^\( *server: \).*#\1https://$NODE_ADDRESS:6443#" /etc/kubernetes/admin.conf > "$STATE/own.conf"
  export KUBECONFIG=$STATE/own.conf
  until kubectl --request-timeout 5s get --raw /readyz > /dev/null 2>&1; do
    if [ "$SECONDS" -ge "$WAIT_SECONDS" ]; then
      echo "the API at $NODE_ADDRESS is not ready" >&2
      return 1
    fi
    sleep 2
  done
}

# The parts of the cluster that kubeadm makes beside the masters, and the pod network, as this generation has them. kube-proxy runs on all nodes, and
# must not be newer than the API server of any master that stays: in the midst of an upgrade they stay as they are, until the last older one is replaced.
renew_addons() {
  step "add-ons"
  local older
  older=$(older_masters | paste -sd ' ')
  if [ -n "$older" ]; then
    echo "not while there is an older version on $older"
    wait_for_cloud_provider
    return
  fi
  kubeadm init phase addon all --config "$STATE/init.yaml"
  install_network
  install_addons
}

# The masters of an older version than this one, but for those that it replaces.
older_masters() {
  local listed name version
  listed=$(repeatedly kubectl --request-timeout 20s get nodes -l node-role.kubernetes.io/control-plane \
    -o 'jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{"\n"}{end}') || return 1
  while read -r name version; do
    # Nothing runs on a machine that has never told its version.
    if [ -n "$version" ] && ! printf '%s\n' "$KUBE_VERSION" "$version" | sort -VC && ! grep -qxF -e "$name" <<< "$(replaced_nodes)"; then
      echo "$name"
    fi
  done <<< "$listed"
}

# Drains a master that this one replaces, and takes it out of etcd and of the cluster; others are to follow it. Each one's drain has its share of the
# time, a moment at the least; etcd and the signal have what comes then (`wait_for_node` leaves as much), or this machine would be stopped before.
see_off() {
  step "seeing off $1"
  local node end left=$(((WAIT_SECONDS - 120 - SECONDS) / $#))
  [ "$left" -gt 30 ] || left=30
  [ "$left" -lt "$DRAIN_SECONDS" ] || left=$DRAIN_SECONDS
  end=$((SECONDS + left))
  # An error is neither "gone" nor the end of the time: the API may be away for a moment, or a webhook deny an eviction.
  until node=$(kubectl --request-timeout 20s get node "$1" --ignore-not-found -o name) && { [ -z "$node" ] || timeout "$((left + 5))" \
    kubectl --request-timeout 60s drain "$1" --ignore-daemonsets --delete-emptydir-data --force --timeout "${left}s"; }; do
    sleep 5
    left=$((end - SECONDS))
    # To kubectl, no seconds are no limit.
    if [ "$left" -le 0 ]; then
      echo "$1 was not drained in time"
      break
    fi
  done
  repeatedly take_out "$1"
}

take_out() {
  local member
  member=$(etcdctl member list) && member=$(printf '%s\n' "$member" | awk -F ', ' -v name="$1" '$3 == name { print $1 }') \
    && { [ -z "$member" ] || etcdctl member remove "$member"; } \
    && kubectl --request-timeout 20s delete node "$1" --ignore-not-found
}

# What extensions of the API take for its authorities is only ever added to; the API servers that are left write it anew.
forget_authorities() {
  case "$GENERATION" in
    *-retire)
      step "authorities that extensions know"
      kubectl --request-timeout 60s -n kube-system delete configmap extension-apiserver-authentication --ignore-not-found
      ;;
  esac
}

# By this master's own member, unless another one is to be asked. Not even a machine that is gone holds it up.
etcdctl() {
  local pki=/etc/kubernetes/pki/etcd
  timeout 30 kubectl --request-timeout 20s -n kube-system exec "${ETCD_POD:-etcd-$NODE_NAME}" -- etcdctl --endpoints https://127.0.0.1:2379 \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
}

install_network() {
  step "pod network $NETWORK_DRIVER"
  if [ "$NETWORK_DRIVER" = cilium ]; then
    install_cilium
    return
  fi
  fetch "$CNI_MANIFEST" "$STATE/cni.yaml" "${CNI_SHA256:-}"
  if [ "$NETWORK_DRIVER" = flannel ]; then
    set_up_flannel "$STATE/cni.yaml"
  fi
  [ -z "${CALICO_IPIP:-}" ] || set_ipip "$STATE/cni.yaml"
  [ -z "${POD_CIDR_V6:-}" ] || "add_ipv6_to_$NETWORK_DRIVER" "$STATE/cni.yaml"
  [ ! -e "$BASE/extra-networks.sh" ] || "keep_${NETWORK_DRIVER}_inside" "$STATE/cni.yaml"
  if [ -n "$IMAGE_PREFIX" ]; then
    sed -i -E "s#image: *(docker\.io|quay\.io|ghcr\.io)/(calico|flannel-io)/#image: $IMAGE_PREFIX#" "$STATE/cni.yaml"
  fi
  apply "$STATE/cni.yaml"
}

# Each add-on of the list; see there for what happens when one fails. A manifest may hold what only masters may read.
install_addons() {
  local name url images image sum
  install -m 0600 /dev/null "$STATE/addon.yaml"
  while read -r name url images; do
    step "add-on $name"
    sum=""
    case "$images" in
      sha256=*) sum=${images:7:64} images=${images:71} ;;
    esac
    fetch "$url" "$STATE/addon.yaml" "$sum"
    case "$url" in
      # Ours; Heat has made the subnet.
      file:*) sed -i -e "s#@SUBNET_ID@#$SUBNET_ID#g" -e "s#@CLOUD_CA@#$(cloud_ca)#g" "$STATE/addon.yaml" ;;
    esac
    case "$name" in
      # Kubelets have certificates of their own making.
      metrics-server) sed -i 's/^\( *\)- --secure-port=.*/&\n\1- --kubelet-insecure-tls/' "$STATE/addon.yaml" ;;
      cinder-csi) name_cluster "$url" ;;
      ingress-nginx) make_room_for_ingress ;;
    esac
    for image in ${images//,/ }; do
      sed -i -E "s#(image: *\"?([^ \"]*/)?${image%%=*}):[^ \"]+#\1:${image#*=}#" "$STATE/addon.yaml"
    done
    if [ -n "$IMAGE_PREFIX" ]; then
      # Copies there need not have the digests that a manifest names.
      sed -i -E -e 's#(image: .*)@sha256:[0-9a-f]{64}#\1#' -e "s#(image: *\"?)([^/ \"]+/)*([^/ \"]+)#\1$IMAGE_PREFIX\3#" "$STATE/addon.yaml"
    fi
    case "$url" in
      # Users write in it from then on.
      file:*/keystone-auth-policy.json) make_once "$STATE/addon.yaml" ;;
      *) apply "$STATE/addon.yaml" ;;
    esac
    case "$url" in
      */cinder-csi-controllerplugin.yaml) tie_to_cloud_config deployment csi-cinder-controllerplugin ;;
      */cinder-csi-nodeplugin.yaml) tie_to_cloud_config daemonset csi-cinder-nodeplugin ;;
    esac
  done < "$BASE/addons.list"
  rm -f "$STATE/addon.yaml"
  wait_for_cloud_provider
}

# Who signed the cloud's certificates, as the data of a secret; nothing where nobody said.
cloud_ca() {
  [ ! -s "$BASE/cloud-ca.crt" ] || base64 -w 0 "$BASE/cloud-ca.crt"
}

# Volumes bear the name of the cluster that they were made for, by which they are known when it is deleted.
name_cluster() {
  sed -i "/name: CLUSTER_NAME/{n;s/value: .*/value: \"$CLUSTER_UUID\"/}" "$STATE/addon.yaml"
  case "$1" in
    */cinder-csi-controllerplugin.yaml)
      if ! grep -qF "value: \"$CLUSTER_UUID\"" "$STATE/addon.yaml"; then
        echo "$1 has no CLUSTER_NAME" >&2
        return 1
      fi
      ;;
  esac
}

# Its jobs cannot be changed, only made anew; its pods are for nodes of a role, where there is one.
make_room_for_ingress() {
  if [ -n "${INGRESS_ROLE:-}" ]; then
    sed -i "s/^\( *\)kubernetes\.io\/os: linux$/&\n\1role: \"$INGRESS_ROLE\"/" "$STATE/addon.yaml"
    if ! grep -qF "role: \"$INGRESS_ROLE\"" "$STATE/addon.yaml"; then
      echo "the manifest of ingress-nginx has no place for the role of nodes" >&2
      return 1
    fi
  fi
  repeatedly kubectl --request-timeout 60s -n ingress-nginx delete job ingress-nginx-admission-create ingress-nginx-admission-patch \
    --ignore-not-found
}

# Pods read their configuration when they start: they are replaced when it has changed. They reach the cloud as nodes do.
tie_to_cloud_config() {
  local sum
  repeatedly give_proxies "$1/$2"
  sum=$(sha256sum "$BASE/addons/cloud-config.json" | cut -c 1-64)
  repeatedly kubectl --request-timeout 60s -n kube-system patch "$1" "$2" \
    -p "{\"spec\": {\"template\": {\"metadata\": {\"annotations\": {\"magnum.openstack.org/cloud-config\": \"$sum\"}}}}}"
}

# Where there are none any more, what masters of before have given is taken away, and nothing that others have set.
give_proxies() {
  local proxies given
  read -ra proxies <<< "${POD_PROXIES:-}"
  if [ "${#proxies[@]}" -eq 0 ]; then
    given=$(kubectl --request-timeout 20s -n kube-system get "$1" -o 'jsonpath={.metadata.annotations.magnum\.openstack\.org/proxies}') || return 1
    [ -n "$given" ] || return 0
    proxies=(HTTP_PROXY- HTTPS_PROXY- NO_PROXY-)
  fi
  # The mark first and last: whoever goes on where this master was cut off finds it.
  kubectl --request-timeout 20s -n kube-system annotate --overwrite "$1" magnum.openstack.org/proxies=given \
    && kubectl --request-timeout 60s -n kube-system set env "$1" "${proxies[@]}" \
    && { [ -n "${POD_PROXIES:-}" ] || kubectl --request-timeout 20s -n kube-system annotate "$1" magnum.openstack.org/proxies-; }
}

# Until the cloud provider knows this machine, nothing runs here that does not tolerate it: DNS does not. What keeps it is told.
wait_for_cloud_provider() {
  [ -n "$CLOUD_PROVIDER" ] || return 0
  step "cloud provider"
  until [ -n "$(kubectl --request-timeout 20s get node "$NODE_NAME" -o 'jsonpath={.spec.providerID}')" ]; do
    if [ "$SECONDS" -ge "$((WAIT_SECONDS - 120))" ]; then
      kubectl --request-timeout 20s -n kube-system logs --tail 3 -l k8s-app=openstack-cloud-controller-manager >&2 || true
      echo "the cloud controller manager has not found $NODE_NAME" >&2
      return 1
    fi
    sleep 5
  done
}

# What the operator gives every new cluster; once, so that what its users make of it stays.
install_own_manifest() {
  [ -n "$POST_INSTALL_MANIFEST" ] || return 0
  step "manifest of the operator"
  fetch "$POST_INSTALL_MANIFEST" "$STATE/own.yaml"
  apply "$STATE/own.yaml"
  rm -f "$STATE/own.yaml"
}

apply() {
  repeatedly kubectl apply -f "$1"
}

make_once() {
  repeatedly is_or_gets_made "$1"
}

is_or_gets_made() {
  kubectl get -f "$1" > /dev/null 2>&1 || kubectl create -f "$1"
}

repeatedly() {
  local try
  for try in 1 2 3 4 5; do
    if "$@"; then
      return 0
    fi
    [ "$try" -lt 5 ] || break
    sleep $((try * 5))
  done
  return 1
}

secrets_at_rest
install_node
unpack_documents
mount_volume "$(node_value ETCD_VOLUME)" /var/lib/etcd-volume
install_pki
if begins_cluster; then
  begin_cluster
  install_network
  install_addons
  install_own_manifest
  wait_for_node
else
  join_cluster
  if [ -n "$REPLACES" ]; then
    ask_own_api
    hold_address
    renew_addons
  fi
  wait_for_node
  if [ -n "$REPLACES" ]; then
    # The former holder takes it back where nobody answers for some minutes.
    hold_address
    # shellcheck disable=SC2046 # as many words as names
    set -- $(replaced_nodes)
    while [ $# -gt 0 ]; do
      see_off "$@"
      shift
    done
    forget_authorities
  fi
fi
step "end"
