# What differs where workers have a port on other networks beside the cluster's; sourced by common.sh.
#
# Nodes are known to Kubernetes by their addresses on the cluster's network (--node-ip), and pods must reach each other by these: a pod network that
# looks for an address itself might find one of another network. Cilium takes what Kubernetes knows.

keep_calico_inside() {
  sed -i -E 's#^( *)- name: FELIX_IPV6SUPPORT$#\1- name: IP_AUTODETECTION_METHOD\n\1  value: "kubernetes-internal-ip"\n&#' "$1"
  must_hold "$1" "- name: IP_AUTODETECTION_METHOD"
}

keep_flannel_inside() {
  sed -i -E -e 's#^( *)- --kube-subnet-mgr$#&\n\1- --iface=$(NODE_IP)#' \
    -e 's#^( *)- name: POD_NAME$#\1- name: NODE_IP\n\1  valueFrom:\n\1    fieldRef:\n\1      fieldPath: status.hostIP\n&#' "$1"
  must_hold "$1" '- --iface=$(NODE_IP)' "- name: NODE_IP"
}
