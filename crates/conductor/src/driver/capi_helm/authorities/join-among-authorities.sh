#!/bin/bash
# Before a master joins that another authority signs for than for masters that are there. kubeadm has the kubeconfigs of this machine trust the
# authority that signs alone, and then asks, by them, masters of the other one: they are made here, made to trust both, and kubeadm is told
# (skipPhases) not to make them. That word is not for this step.
set -eu
COREOS_OPENSTACK_HOSTNAME=${COREOS_OPENSTACK_HOSTNAME:-}
umask 077
for config in /run/kubeadm/kubeadm-join-config.yaml /etc/kubeadm.yml; do
  [ ! -e "$config" ] || break
done
# Flatcar's own name is filled in later than this.
sed -e '/^skipPhases:/d' -e '/^ *- control-plane-prepare\/kubeconfig$/d' \
  -e "s/[$]{COREOS_OPENSTACK_HOSTNAME}/${COREOS_OPENSTACK_HOSTNAME%.*}/" "$config" > /run/join-among-authorities.yaml
kubeadm join phase control-plane-prepare kubeconfig --config /run/join-among-authorities.yaml
authorities=$(base64 -w 0 /etc/kubernetes/pki/ca.crt)
for name in admin controller-manager scheduler; do
  sed -i "s#certificate-authority-data: .*#certificate-authority-data: $authorities#" "/etc/kubernetes/$name.conf"
done
rm -f /run/join-among-authorities.yaml
