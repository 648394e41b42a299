# What differs in a cluster that has IPv6 beside IPv4; sourced by common.sh.

NODE_ADDRESS_V6=$(node_value NODE_ADDRESS_V6)

# kubelet does not register with an address that its machine does not have. The system asks for it by DHCPv6, and its network is online without.
wait_for_address_v6() {
  step "IPv6 address"
  local until=$((SECONDS + 300))
  until ip -o -6 address show -tentative | grep -F " $NODE_ADDRESS_V6/" > /dev/null; do
    if [ "$SECONDS" -ge "$until" ]; then
      echo "this machine did not get $NODE_ADDRESS_V6 within 300 seconds: the subnet must hand it out by stateful DHCPv6" >&2
      return 1
    fi
    sleep 2
  done
}

# Pods get addresses of both. What a manifest has no place for would be missing: these fail then, and with them the master.
add_ipv6_to_flannel() {
  sed -i "s#^\( *\)\"Network\": \"$POD_CIDR\",#&\n\1\"EnableIPv6\": true,\n\1\"IPv6Network\": \"$POD_CIDR_V6\",#" "$1"
  must_hold "$1" "\"EnableIPv6\": true," "\"IPv6Network\": \"$POD_CIDR_V6\","
}

# Of IPv6 there is no IP in IP: pods reach those of other nodes by VXLAN. Their range leads nowhere outside, so they leave with their node's address.
add_ipv6_to_calico() {
  local setting lines="" env=("IP6=autodetect" "CALICO_IPV6POOL_CIDR=$POD_CIDR_V6" "CALICO_IPV6POOL_NAT_OUTGOING=true")
  for setting in "${env[@]}"; do
    lines+="\1- name: ${setting%%=*}\n\1  value: \"${setting#*=}\"\n"
  done
  sed -i -E -e 's#"type": "calico-ipam"#&, "assign_ipv4": "true", "assign_ipv6": "true"#' \
    -e "s#^( *)- name: FELIX_IPV6SUPPORT\$#$lines&#" \
    -e '/- name: CALICO_IPV6POOL_VXLAN$/{n;s/value: .*/value: "Always"/}' \
    -e '/- name: FELIX_IPV6SUPPORT$/{n;s/value: .*/value: "true"/}' "$1"
  must_hold "$1" '"assign_ipv6": "true"' "- name: CALICO_IPV6POOL_CIDR"
  must_follow "$1" CALICO_IPV6POOL_VXLAN Always
  must_follow "$1" FELIX_IPV6SUPPORT true
}
