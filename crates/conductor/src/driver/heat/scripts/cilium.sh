# The pod network cilium, of masters whose cluster has it; sourced after install.sh.

install_cilium() {
  local site=${DOWNLOADS:-https://}github.com/cilium/cilium-cli/releases/download verb=install name="" image digest=true
  local charts=${DOWNLOADS:-https://}helm.cilium.io
  local url="$site/$CILIUM_CLI_VERSION/cilium-linux-$ARCH.tar.gz"
  fetch "$url" "$STATE/cilium.tar.gz" "$url.sha256sum"
  tar -C "$PROGRAMS" -xzf "$STATE/cilium.tar.gz" cilium
  # Helm's record of a release that was cut off lets no other one begin. What it has made is taken over.
  repeatedly kubectl --request-timeout 60s -n kube-system delete secret -l 'owner=helm,name=cilium,status notin (deployed,superseded)'
  if [ -n "$(kubectl --request-timeout 20s -n kube-system get secret -l owner=helm,name=cilium,status=deployed -o name)" ]; then
    verb=upgrade
    # Who is in the cluster is known by it: it stays, unless the chart would refuse it.
    name=$(repeatedly kubectl --request-timeout 20s -n kube-system get configmap cilium-config --ignore-not-found \
      -o 'jsonpath={.data.cluster-name}')
  fi
  [[ $name =~ ^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$ ]] || name=$CILIUM_NAME
  local settings=(--set "cluster.name=$name" --set ipam.mode=cluster-pool --set "ipam.operator.clusterPoolIPv4PodCIDRList={$POD_CIDR}")
  if [ -n "${POD_CIDR_V6:-}" ]; then
    settings+=(--set ipv6.enabled=true --set "ipam.operator.clusterPoolIPv6PodCIDRList={$POD_CIDR_V6}"
      --set "ipam.operator.clusterPoolIPv6MaskSize=$NODE_PODS_LENGTH_V6")
  fi
  # What a release was told before counts until it is told otherwise. The chart puts the cloud behind the operator's name: operator-generic. Copies need
  # not have the digests that the chart names.
  if [ -n "$IMAGE_PREFIX" ] || [ "$verb" = upgrade ]; then
    [ -z "$IMAGE_PREFIX" ] || digest=false
    for image in image=cilium operator.image=operator envoy.image=cilium-envoy; do
      settings+=(--set "${image%=*}.repository=${IMAGE_PREFIX:-quay.io/cilium/}${image#*=}" --set "${image%=*}.useDigest=$digest")
    done
  fi
  cilium "$verb" --repository "$charts" --version "$CILIUM_TAG" "${settings[@]}"
}
