#!/bin/bash
# A worker: installs while the masters do, joins as soon as the API answers.
. /etc/kubernetes-bootstrap/common.sh
. /etc/kubernetes-bootstrap/install.sh

install_node
step "waiting for the API"
wait_for_api
step "kubeadm join"
fill "$BASE/join.yaml" "$STATE/join.yaml"
join true
step "end"
