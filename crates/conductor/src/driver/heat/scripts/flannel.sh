# What the manifest of flannel is told, by masters whose cluster has it; sourced after install.sh.

# Where pods have their addresses from, how nodes are connected, and which taints it bears: its own manifest those that keep new pods away, but a group may
# have one that drives away pods that are there, too, and nodes without a pod network are none.
set_up_flannel() {
  sed -i -E -e "s#10\.244\.0\.0/16#$POD_CIDR#" -e "s#\"vxlan\"#\"$FLANNEL_BACKEND\"#" \
    -e '/^ *- effect: NoSchedule$/{N;s/effect: NoSchedule\n *//}' -e '/^ *effect: NoSchedule$/d' "$1"
  must_hold "$1" "\"Network\": \"$POD_CIDR\"" "\"Type\": \"$FLANNEL_BACKEND\"" "- operator: Exists"
}
