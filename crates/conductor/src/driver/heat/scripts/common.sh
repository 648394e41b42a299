# Shared by masters and workers; sourced. Signals Heat exactly once, at the end: ready, or the step that failed and its last words.
set -euo pipefail

BASE=/etc/kubernetes-bootstrap
STATE=/var/lib/kubernetes-bootstrap
LOG=/var/log/kubernetes-bootstrap.log
UNIT=/etc/systemd/system/kubernetes-bootstrap.service
STEP="start"

# A value of this node, from the section of the unit that systemd ignores (and does not expand).
node_value() {
  sed -n "s/^$1=//p" "$UNIT"
}

step() {
  STEP=$1
  echo "== $STEP"
  tell_consoles "$STEP"
}

# Says it on the consoles of this machine as well: who may not log in to it can read there what Nova shows of them. That is the serial one, and
# /dev/console the last of them, which on Flatcar is the screen. There may be none, or one that takes nothing: nobody fails for that, nor waits for long.
tell_consoles() {
  local name
  for name in $(cat /sys/class/tty/console/active 2> /dev/null || echo console); do
    [ ! -c "/dev/$name" ] || timeout 2 tee "/dev/$name" <<< "kubernetes-bootstrap: $1" > /dev/null 2>&1 || true
  done
}

# What may be told outside. The last words of a program may be in it: no token of ours goes out with them.
cleaned() {
  printf '%s' "$1" | tr -c 'A-Za-z0-9 .,:;/()_=+-' ' ' | sed -E 's/[a-z0-9]{6}\.[a-z0-9]{16}/(token)/g' | cut -c 1-500
}

# Tells Heat, and what this machine is to the cluster. Our token for Heat is not for other users' eyes.
signal() {
  local reason body trust=()
  reason=$(cleaned "$2")
  if [ "${CLOUD_VERIFY:-true}" = false ]; then
    trust=(-k)
  elif [ -s "$BASE/cloud-ca.crt" ]; then
    cat /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/certs/ca-certificates.crt "$BASE/cloud-ca.crt" 2> /dev/null > "$STATE/trusted.crt" || true
    trust=(--cacert "$STATE/trusted.crt")
  fi
  body="{\"status\": \"$1\", \"reason\": \"$reason\", \"data\": \"$3\", \"id\": \"$NODE_NAME\"}"
  curl "${trust[@]}" -fsS -o /dev/null --connect-timeout 10 --max-time 30 --retry 20 --retry-delay 5 --retry-all-errors \
    -H @- -H "Content-Type: application/json" -d "$body" "$SIGNAL_ENDPOINT" <<< "X-Auth-Token: $SIGNAL_TOKEN"
}

# Keeps that so much is done, on the disk and after all that was written before: a machine may be cut off at any moment, and goes on from what it
# finds.
mark() {
  touch "$STATE/$1"
  sync
}

# What a machine that did not become a node is to the cluster. Of one that never tried to join nothing is there, and whoever asked for it may take it
# away as it is; what another one left there is to be seen off.
standing() {
  if [ -e "$STATE/joining" ]; then
    echo "$NODE_NAME"
  else
    touch "$STATE/absent"
    echo absent
  fi
}

# From here on it may be a part of the cluster, also when it is started again. What it has said before, it takes back first.
begin_to_join() {
  if [ -e "$STATE/absent" ]; then
    signal FAILURE "$NODE_NAME tries once more" "$NODE_NAME" || return 1
    rm "$STATE/absent"
  fi
  mark joining
}

finish() {
  local code=$? reason
  trap - EXIT
  if [ "$code" -eq 0 ]; then
    touch "$STATE/ready"
    if signal SUCCESS "$NODE_NAME is ready" "$NODE_NAME"; then
      touch "$STATE/done"
      sed -i 's/^SIGNAL_TOKEN=.*/SIGNAL_TOKEN=/' "$UNIT"
    fi
  else
    reason=$(cleaned "$NODE_NAME: $STEP failed: $(tail -n 4 "$LOG" || true)")
    tell_consoles "$reason"
    signal FAILURE "$reason" "$(standing)"
  fi
  exit "$code"
}

# Downloads URL to FILE and checks it against a SHA-256 (64 hex digits), or against the sum published at a URL.
fetch() {
  local url=$1 file=$2 sum=${3:-}
  curl -fsSL --connect-timeout 15 --max-time 900 --retry 8 --retry-delay 5 --retry-all-errors -o "$file" "$url"
  case "$sum" in
    "") return 0 ;;
    http*) sum=$(curl -fsSL --connect-timeout 15 --max-time 60 --retry 8 --retry-delay 5 --retry-all-errors "$sum") ;;
  esac
  # A published file holds the bare sum, or lines of "sum  name".
  case "$sum" in
    *" "*) sum=$(printf '%s\n' "$sum" | awk -v name="${url##*/}" '$2 == name || $2 == "*" name { print $1; exit }') ;;
  esac
  echo "$sum  $file" | sha256sum -c --quiet -
}

# Waits until the cluster takes this node for ready, its pod network for one; what keeps it is told. Who makes it has a while left to tell it.
wait_for_node() {
  step "readiness of the node"
  until [ "$(node_condition status)" = True ]; do
    if [ "$SECONDS" -ge "$((WAIT_SECONDS - 120))" ]; then
      echo "$NODE_NAME is not ready: $(node_condition message)" >&2
      return 1
    fi
    sleep 5
  done
}

# A part of what the cluster says of this node's readiness.
node_condition() {
  kubectl --request-timeout 20s get node "$NODE_NAME" -o "jsonpath={.status.conditions[?(@.type==\"Ready\")].$1}"
}

# Whether the API server at this address is ready.
api_answers() {
  curl -ksf -o /dev/null --noproxy '*' --max-time 5 "https://$1:6443/readyz"
}

wait_for_api() {
  until api_answers "$API_ADDRESS"; do
    if [ "$SECONDS" -ge "$WAIT_SECONDS" ]; then
      echo "the API at $API_ADDRESS did not answer within $WAIT_SECONDS seconds" >&2
      # One that is not ready says what it lacks.
      ! curl -ks --noproxy '*' --max-time 5 "https://$API_ADDRESS:6443/readyz" | grep -F '[-]etcd' > /dev/null \
        || echo "its etcd does not answer: etcd has no quorum, or does not run" >&2
      return 1
    fi
    sleep 5
  done
}

# Puts this node's values into a kubeadm configuration.
fill() {
  sed -e "s#@NODE_NAME@#$NODE_NAME#g" -e "s#@GENERATION@#$GENERATION#g" -e "s#@NODE_ADDRESS@#$NODE_ADDRESS#g" \
    -e "s#@NODE_ADDRESS_V6@#${NODE_ADDRESS_V6:-}#g" -e "s#@API_ADDRESS@#$API_ADDRESS#g" \
    -e "s#\"@SANS@\"#${SANS:-}#g" "$1" > "$2"
  chmod 0600 "$2"
}

# Has kubeconfig files trust all authorities of this generation: kubeadm puts the one that signs there, or what the cluster had before.
trust_in() {
  local authorities
  authorities=$(base64 -w 0 "$BASE/pki/ca.crt")
  sed -i "s#^\( *certificate-authority-data: \).*#\1$authorities#" "$@"
}

# The names of the nodes that this one replaces: they differ from its own in their number.
replaced_nodes() {
  local number
  for number in ${REPLACES//,/ }; do
    echo "${NODE_NAME%-*}-$number"
  done
}

# Fails where a manifest of the pod network lacks one of these texts: what it has no place for would be missing.
must_hold() {
  local file=$1 text
  shift
  for text in "$@"; do
    if ! grep -F -e "$text" "$file" > /dev/null; then
      echo "the manifest of $NETWORK_DRIVER has no place for $text" >&2
      return 1
    fi
  done
}

NODE_NAME=$(node_value NODE_NAME)
GENERATION=$(node_value GENERATION)
REPLACES=$(node_value REPLACES)
NODE_ADDRESS=$(node_value NODE_ADDRESS)
API_ADDRESS=$(node_value API_ADDRESS)
DATA_VOLUME=$(node_value DATA_VOLUME)
SIGNAL_ENDPOINT=$(node_value SIGNAL_ENDPOINT)
SIGNAL_TOKEN=$(node_value SIGNAL_TOKEN)

mkdir -p "$STATE"
# What programs say may hold what lets nodes in.
[ ! -e "$LOG" ] || chmod 0600 "$LOG"
trap finish EXIT
trap 'exit 143' TERM INT

set -a
. "$BASE/node.env"
. "$BASE/proxy.env"
if [ -n "${NO_PROXY:-}" ]; then
  NO_PROXY="$NO_PROXY,$API_ADDRESS,$NODE_ADDRESS"
  export no_proxy=$NO_PROXY
fi
set +a

# In clusters that have IPv6 beside IPv4.
[ ! -e "$BASE/dual-stack.sh" ] || . "$BASE/dual-stack.sh"
# Where workers are on more networks than the cluster's.
[ ! -e "$BASE/extra-networks.sh" ] || . "$BASE/extra-networks.sh"

# A node already, whose signal was lost: nothing is done again but that.
if [ -e "$STATE/ready" ]; then
  exit 0
fi

case "$(uname -m)" in
  x86_64) ARCH=amd64 ;;
  aarch64) ARCH=arm64 ;;
  *) echo "no binaries for $(uname -m)" >&2; exit 1 ;;
esac
