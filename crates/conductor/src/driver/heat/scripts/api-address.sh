#!/bin/bash
# Keeps the address of the API on the master that holds it, where no load balancer does: the cluster's lease says which, every master looks
# through its own API server. Whoever cannot look keeps what it has, unless it was a master and was put back. The first holder is the master that
# begins the cluster. Where another one is named and nobody answers at the address, it is for whoever can look: the other one may never come back.
set -u

UNIT=/etc/systemd/system/kubernetes-bootstrap.service
ADDRESS=$(sed -n 's/^API_ADDRESS=//p' "$UNIT")
OWN=$(sed -n 's/^NODE_ADDRESS=//p' "$UNIT")
NAME=$(sed -n 's/^NODE_NAME=//p' "$UNIT")
STATE=/var/lib/kubernetes-bootstrap
HOLDS=$STATE/holds-api-address
export KUBECONFIG=/etc/kubernetes/admin.conf
# Rounds, of two seconds or more, in which nobody answers, and how many of them there may be.
away=0
MOST=100

lease() {
  kubectl --server "https://$OWN:6443" --request-timeout 5s -n kube-system "$1" lease magnum-api-address "${@:2}"
}

# Whoever knows the former holder learns the new one, from any question that comes from the address; not every image has arping.
tell_neighbours() {
  local gateway
  arping -U -c 3 -I "$1" "$ADDRESS" > /dev/null 2>&1 && return
  gateway=$(ip -4 route show default | awk '{ print $3; exit }')
  [ -n "$gateway" ] || return
  ip neighbour del "$gateway" dev "$1" 2> /dev/null
  ping -c 1 -W 1 -I "$ADDRESS" "$gateway" > /dev/null 2>&1
}

while true; do
  if now=$(lease get -o 'jsonpath={.spec.holderIdentity}' 2> /dev/null) && [ -n "$now" ]; then
    if [ "$now" = "$NAME" ]; then
      touch "$HOLDS"
      away=0
    else
      rm -f "$HOLDS"
      if curl -ksf -o /dev/null --noproxy '*' --max-time 5 "https://$ADDRESS:6443/readyz"; then
        away=0
      elif [ "$((away += 1))" -gt "$MOST" ]; then
        lease patch --type merge -p "{\"spec\": {\"holderIdentity\": \"$NAME\"}}"
        away=0
      fi
    fi
  elif [ -e "$STATE/joined" ] && [ ! -e "$KUBECONFIG" ] && [ "$((away += 1))" -gt "$MOST" ]; then
    rm -f "$HOLDS"
    away=0
  fi
  device=$(ip -o -4 address show | awk -v own="$OWN" 'index($4, own "/") == 1 { print $2; exit }')
  if [ -n "$device" ]; then
    if [ -e "$HOLDS" ]; then
      if ! ip -o -4 address show dev "$device" | grep -qF " $ADDRESS/32 "; then
        ip address add "$ADDRESS/32" dev "$device"
        tell_neighbours "$device"
      fi
    else
      ip address del "$ADDRESS/32" dev "$device" 2> /dev/null || true
    fi
  fi
  sleep 2
done
