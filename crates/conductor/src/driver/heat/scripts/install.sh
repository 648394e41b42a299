# Container runtime and Kubernetes binaries; sourced after common.sh.

KUBE_SITE=${DOWNLOADS:-https://}dl.k8s.io/release
CONTAINERD_SITE=${DOWNLOADS:-https://}github.com/containerd/containerd/releases/download
RUNC_SITE=${DOWNLOADS:-https://}github.com/opencontainers/runc/releases/download
CNI_SITE=${DOWNLOADS:-https://}github.com/containernetworking/plugins/releases/download

prepare_kernel() {
  step "kernel settings"
  # Also after a reboot: kubelet does not run with swap.
  swapoff -a
  [ ! -e /etc/fstab ] || sed -i -E '/^[^#[:space:]]+[[:space:]]+[^[:space:]]+[[:space:]]+swap[[:space:]]/d' /etc/fstab
  modprobe -a overlay br_netfilter
  # Ours: another one of the image that fails is none of the cluster's business.
  sysctl -q -p /etc/sysctl.d/99-kubernetes.conf
}

# Mounts VOLUME, if it is given, at PATH. It is found by its serial number, which is the beginning of its id.
mount_volume() {
  local volume=$1 path=$2 device=""
  [ -n "$volume" ] || return 0
  step "volume of $path"
  while [ -z "$device" ]; do
    # The folder comes with the first volume.
    device=$(find /dev/disk/by-id -name "*${volume:0:20}*" ! -name '*-part*' -print -quit 2> /dev/null || true)
    [ -n "$device" ] && break
    if [ "$SECONDS" -ge "$WAIT_SECONDS" ]; then
      echo "volume $volume did not appear" >&2
      return 1
    fi
    sleep 2
  done
  blkid "$device" > /dev/null || mkfs.ext4 -q "$device"
  mkdir -p "$path"
  if ! grep -q " $path " /etc/fstab; then
    echo "UUID=$(blkid -s UUID -o value "$device") $path ext4 defaults,nofail 0 2" >> /etc/fstab
    systemctl daemon-reload
  fi
  mountpoint -q "$path" || mount "$path"
}

install_runtime() {
  step "container runtime"
  local work
  work=$(mktemp -d)
  mkdir -p "$PROGRAMS" /opt/cni/bin
  if ! "$PROGRAMS/containerd" --version 2> /dev/null | grep -q " v$CONTAINERD_VERSION "; then
    local tarball="containerd-$CONTAINERD_VERSION-linux-$ARCH.tar.gz"
    local url="${CONTAINERD_URL:-$CONTAINERD_SITE/v$CONTAINERD_VERSION/$tarball}"
    fetch "$url" "$work/containerd.tar.gz" "${CONTAINERD_SHA256:-$url.sha256sum}"
    # They are in a folder `bin` there, as here.
    tar -C "${PROGRAMS%/bin}" -xzf "$work/containerd.tar.gz"
  fi
  fetch "$RUNC_SITE/v$RUNC_VERSION/runc.$ARCH" "$work/runc" "$RUNC_SITE/v$RUNC_VERSION/runc.sha256sum"
  install -m 0755 "$work/runc" "$PROGRAMS/runc"
  local plugins="cni-plugins-linux-$ARCH-v$CNI_VERSION.tgz"
  fetch "$CNI_SITE/v$CNI_VERSION/$plugins" "$work/cni.tgz" "$CNI_SITE/v$CNI_VERSION/$plugins.sha256"
  tar -C /opt/cni/bin -xzf "$work/cni.tgz"
  rm -rf "$work"
}

install_kubernetes() {
  step "Kubernetes binaries"
  local name url
  for name in kubeadm kubelet kubectl; do
    url="$KUBE_SITE/$KUBE_VERSION/bin/linux/$ARCH/$name"
    fetch "$url" "$STATE/$name" "$url.sha256"
    install -m 0755 "$STATE/$name" "$PROGRAMS/$name"
    rm -f "$STATE/$name"
  done
}

start_services() {
  step "services"
  if command -v restorecon > /dev/null; then
    # Labels are no matter where nothing is enforced.
    restorecon -R "$PROGRAMS" /opt/cni || [ "$(getenforce)" = Permissive ]
  fi
  systemctl daemon-reload
  systemctl enable --now containerd.service
  systemctl enable kubelet.service
  systemctl restart containerd.service
}

install_node() {
  prepare_kernel
  [ -z "${NODE_ADDRESS_V6:-}" ] || wait_for_address_v6
  mount_volume "$DATA_VOLUME" /var/lib/containerd
  install_runtime
  install_kubernetes
  start_services
  export PATH=$PROGRAMS:$PATH
}

# Whether this machine has joined, and is not to do so again: another join would fail at what it finds, and what is put back then may be all that
# the cluster has. Where a join was cut off before it could be kept that it was over, a file tells that it had come to its last part. Then a command
# looks for the node for some time, as what makes it one was started with the machine. Where there is none, nothing hangs on what is put back.
has_joined() {
  local end=$((SECONDS + 180))
  [ ! -e "$STATE/joined" ] || return 0
  while [ -e "$1" ] && [ "$SECONDS" -lt "$end" ]; do
    if "$2"; then
      mark joined
      return 0
    fi
    sleep 5
  done
  return 1
}

# Joins by the first command with a few tries: masters that join at the same time may find etcd busy with another member. The second command
# puts back what a reset takes away. After the last try, too, there is one: a master's member of etcd would keep all others out, and what was put back
# is no part of the cluster, when nothing of it runs. What it says is kept apart: the last words are to be those of the join.
join() {
  local try is_reset
  begin_to_join || return 1
  for try in 1 2 3 4 5; do
    if "$1"; then
      mark joined
      return 0
    fi
    is_reset=yes
    timeout 300 kubeadm reset --force --cri-socket unix:///run/containerd/containerd.sock >> "$STATE/reset.log" 2>&1 || is_reset=
    [ "$try" -lt 5 ] || break
    sleep $((try * 10 + RANDOM % 10))
    "$2"
  done
  if [ -n "$is_reset" ] && ! grep -qsx -e kubelet -e etcd /proc/[0-9]*/comm; then
    rm -f "$STATE/joining"
  fi
  return 1
}
