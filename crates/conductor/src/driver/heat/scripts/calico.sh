# What the manifest of calico is told, by masters whose cluster has it; sourced after install.sh.

# Which packets of pods travel in packets of their nodes. Calico reads it when it makes its pool, and never again.
set_ipip() {
  sed -i "/- name: CALICO_IPV4POOL_IPIP\$/{n;s/value: .*/value: \"$CALICO_IPIP\"/}" "$1"
  must_follow "$1" CALICO_IPV4POOL_IPIP "$CALICO_IPIP"
}

# Fails where the manifest lacks a variable of a container, with this value in the next line. For IPv6, too (dual-stack.sh).
must_follow() {
  if ! grep -A 1 -e "- name: $2\$" "$1" | grep -F "value: \"$3\"" > /dev/null; then
    echo "the manifest of $NETWORK_DRIVER has no place for $2=$3" >&2
    return 1
  fi
}
