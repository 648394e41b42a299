# What `run` and `adopt` share: checks that are counted, the configuration of Magnum, its database, how a cluster is watched. Sourced by them.
. ./services.sh
. ./conf.sh
BIN=${MAGNUM_BIN_DIR:?set it to the folder of our binaries}
OURS="magnum-api magnum-conductor-1 magnum-conductor-2"
# How long what Heat does may take, on a machine that runs all tests meanwhile: these end a run that hangs, they judge nothing.
CREATE_LIMIT=1200 DELETE_LIMIT=900
passed=0 failed=0 signals= players=
begin=$SECONDS

say() { printf '[%4d s] %s\n' $((SECONDS - begin)) "$*"; }
# check TEXT CMD...: runs it, counts, shows the output of a failure; must: and ends the run
check() {
  local text=$1 out; shift
  if out=$("$@" 2>&1); then passed=$((passed + 1)); say "ok      $text"
  else failed=$((failed + 1)); say "FAILED  $text"; sed 's/^/            /' <<<"$out" | tail -n 30; return 1; fi
}
must() { check "$@" || give_up "$1"; }
give_up() {
  say "giving up: $1"; [ $failed -gt 0 ] || failed=1
  local s; for s in $OURS; do echo "--- end of $s.log"; tail -n 60 $OSLAB/log/$s.log 2>/dev/null; done
  as demo; echo "--- stack"; timeout 60 openstack stack list --nested 2>&1 | head -40
  [ -z "$STACK" ] || timeout 60 openstack stack failures list --long $STACK 2>&1 | tail -40
  finish
}
finish() {
  trap - EXIT INT TERM
  [ -z "$signals$players" ] || kill $signals $players 2>/dev/null
  stop_all $OURS $UPSTREAM management kubernetes-stub >/dev/null
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]; exit
}
trap 'failed=$((failed + 1)); finish' EXIT
trap 'exit 130' INT TERM
os() { timeout 60 openstack "$@"; }
# value COMMAND... FIELD: one field of what the client shows
value() { os "${@:1:$#-1}" -f value -c "${@: -1}"; }
equals() { local want=$1 got; shift; got=$("$@" 2>&1); [ "$got" = "$want" ] || { echo "wanted '$want', got '$got'"; return 1; }; }
# count WANT PATTERN CMD...: so many lines of the output match
count() { local want=$1 pattern=$2 out n; shift 2; out=$("$@" 2>&1); n=$(grep -cE "$pattern" <<<"$out"); [ "$n" = "$want" ] || { echo "wanted $want lines with '$pattern', got $n:"; echo "$out"; return 1; }; }
has() { local pattern=$1 out; shift; out=$("$@" 2>&1); grep -qE "$pattern" <<<"$out" || { echo "no '$pattern' in:"; echo "$out"; return 1; }; }
# differs FILE CMD...: the output is not what is in the file
differs() { local file=$1; shift; ! diff -q "$file" <("$@") >/dev/null; }
within() { local end=$((SECONDS + $1)); shift; until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || { "$@"; return 1; }; sleep 1; done; }

# ask PATH CURL-ARGUMENTS...: what Magnum answers, for waits: a client would take seconds of a machine that Heat and Nova need meanwhile
ask() {
  local path=$1 token=$RUN/token-$OS_USERNAME-$OS_PROJECT_NAME; shift
  [ -s $token ] || value token issue id >$token
  curl -s -m 20 -H "X-Auth-Token: $(<$token)" -H 'OpenStack-API-Version: container-infra latest' "$@" http://$IP:$MAGNUM_PORT/v1/$path
}
status_of() { ask $1 | jq -r .status; }
cluster_is() { equals $2 status_of clusters/$1; }
group_is() { equals $3 status_of clusters/$1/nodegroups/$2; }
# ends SECONDS NAME STATUS: the cluster comes to its end, and to this one
at_rest() { [[ $(status_of clusters/$1) =~ _(COMPLETE|FAILED)$ ]]; }
ends() { within $1 at_rest $2; cluster_is $2 $3 || { ask clusters/$2 | jq -r .status_reason; return 1; }; }
gone() { equals 404 ask $1 -o /dev/null -w '%{http_code}'; }
# settled SECONDS: the cluster $NAME has come to the end of an update
settled() { ends $1 $NAME UPDATE_COMPLETE; }
no_cluster() { gone clusters/$1; }
no_group() { gone clusters/$1/nodegroups/$2; }
masters_of() { ask clusters/$1 | jq '.master_addresses | length'; }

# clean_run FOLDER DATABASE [PROGRAM...]: a clean place for a run, which needs these of our programs beside the usual ones; gives up when the lab is
# not as it must be
clean_run() {
  RUN=$OSLAB/$1 DATABASE=$2; rm -rf $RUN; mkdir -p $RUN
  ./status >/dev/null || { echo "the lab is not up (cargo xtask lab up)"; ./status; failed=1; finish; }
  local b; for b in magnum-api magnum-conductor magnum-db-manage ${@:3}; do [ -x $BIN/$b ] || { echo "no $BIN/$b"; failed=1; finish; }; done
  stop_all $OURS $UPSTREAM management kubernetes-stub >/dev/null
  as demo # what a run that failed left behind would be counted; newest first, for the stack of a nodegroup uses the cluster's
  local id; for id in $(os stack list --sort creation_time:desc -f value -c ID); do say "  deleting the stack of an earlier run"; timeout 240 openstack stack delete -y --wait $id >/dev/null 2>&1; done
  magnum_conf >$RUN/magnum.conf
  for i in 1 2; do printf '[DEFAULT]\nhost = lab-conductor-%s\n' $i >$RUN/conductor-$i.conf; done
  sql -e "drop database if exists $DATABASE; create database $DATABASE" || { echo "cannot make the database"; failed=1; finish; }
  timeout 60 bash -c "rabbit rabbitmqctl -q delete_vhost $DATABASE" >/dev/null 2>&1
  timeout 60 bash -c "rabbit rabbitmqctl -q add_vhost $DATABASE && rabbit rabbitmqctl -q set_permissions -p $DATABASE $AMQP_USER '.*' '.*' '.*'" ||
    { echo "cannot make the virtual host"; failed=1; finish; }
}

# The configuration as kolla-ansible writes it (no trustee_domain_id), with a database and a virtual host named $DATABASE.
magnum_conf() { cat <<X
[DEFAULT]
transport_url = rabbit://$AMQP_USER:$AMQP_PASS@$IP:$AMQP_PORT/$DATABASE
host = lab-api
state_path = $RUN
debug = true
[api]
host = $IP
port = $MAGNUM_PORT
workers = 2
[conductor]
workers = 2
[database]
connection = $(db $DATABASE)
connection_recycle_time = 10
max_pool_size = 5
max_retries = -1
[trust]
trustee_domain_name = magnum
trustee_domain_admin_name = magnum_domain_admin
trustee_domain_admin_password = $SERVICE_PASS
trustee_domain_admin_domain_name = magnum
trustee_keystone_interface = public
trustee_keystone_region_name = RegionOne
cluster_user_trust = true
[cluster]
etcd_discovery_service_endpoint_format = http://$IP:$DISCOVERY_STUB_PORT/new?size=%(size)d
[certificates]
cert_manager_type = ${CERT_MANAGER:-x509keypair}
[cluster_template]
kubernetes_allowed_network_drivers = all
kubernetes_default_network_driver = calico
# No health polling: it would send to the clusters' API addresses, which are not on this machine.
[kubernetes]
health_polling_interval = -1
[magnum_client]
region_name = RegionOne
endpoint_type = publicURL
[keystone_auth]
$(creds magnum)
$(authtoken magnum container-infra)
token_cache_time = 10
[oslo_middleware]
enable_proxy_headers_parsing = true
$(common magnum defaults)
X
for c in barbican cinder glance heat neutron nova octavia; do printf '[%s_client]\nregion_name = RegionOne\nendpoint_type = publicURL\n' $c; done; }
upstream() { timeout 120 $VENV/bin/magnum-db-manage --config-file $RUN/magnum.conf "$@"; }
inventory() { as admin; timeout 60 $CLIENT/bin/python inventory.py >$1 2>$RUN/inventory.err || { cat $RUN/inventory.err; return 1; }; }
# at_first: what the cloud has before the run. Nova still takes servers away when Heat says that the stack of an earlier run is gone: these are waited for.
none_leaves() { local out; as demo; out=$(os server list --long -f value -c Name -c 'Task State' 2>&1) && ! grep deleting <<<"$out" || { echo "$out"; return 1; }; }
at_first() { { within 300 none_leaves && inventory $RUN/before; } || give_up "inventory"; }
same() { inventory $RUN/after && diff $RUN/before $RUN/after; }
# agrees: the cloud holds what the inventory says, and nothing else is new. Heat and Octavia tidy up after they have said that they are done.
agrees() {
  inventory $RUN/now || return 1
  sql -N $DATABASE -e "select kind, name, coalesce(resource_id, '') from cloud_resource" |
    timeout 120 $CLIENT/bin/python agree.py $RUN/before $RUN/now
}
all_agree() { check "$1: the cloud holds what the inventory says" within 60 agrees; as demo; }
# tell_history STACK: how its masters and workers came and went since $since, as history.py tells it
tell_history() { timeout 60 $CLIENT/bin/python history.py $1 $since >$RUN/history; }
came_and_went() { has "$1" sed -n 1p $RUN/history; }
masters_at_once() { equals "masters at once: $1" sed -n 2p $RUN/history; }
# seen_off LOG MASTERS: whom masters have seen off before they were ready, in this order, as the player of nodes tells it
told_in() { sed -n 's/.*-master-\([0-9]*\) in place of \([0-9,]*\): 20[0-9] SUCCESS$/\1 for \2/p' $1 | paste -sd ' '; }
seen_off() { equals "$2" told_in $1; }

# pairs: every key pair that Barbican keeps for the clusters opens, and its halves belong together; prints how many there are
pairs() { timeout 60 $CLIENT/bin/python keypairs.py; }
# pairs_of_rows: the same for those in the database
pairs_of_rows() {
  sql -N -r $DATABASE -e "select json_object('name', uuid, 'certificate', certificate, 'private_key', private_key, 'private_key_passphrase', private_key_passphrase)
    from x509keypair" | timeout 60 $CLIENT/bin/python keypairs.py --rows
}
manage() { timeout 120 $BIN/magnum-db-manage --config-file $RUN/magnum.conf "$@"; }

# start_ours: our magnum-api and two magnum-conductor, which must answer
start_ours() {
  : >$OSLAB/log/magnum-api.log; for i in 1 2; do : >$OSLAB/log/magnum-conductor-$i.log; done
  spawn magnum-api $BIN/magnum-api --config-file $RUN/magnum.conf >/dev/null
  for i in 1 2; do spawn magnum-conductor-$i $BIN/magnum-conductor --config-file $RUN/magnum.conf --config-file $RUN/conductor-$i.conf >/dev/null; done
  must "magnum-api listens" wait_port magnum-api $MAGNUM_PORT 30
}

# watch_create NAME PROCESSES: shows how a cluster comes up, and plays its nodes, until it is complete or has failed
watch_create() {
  local end=$((SECONDS + CREATE_LIMIT)) last= line seen s
  : >$RUN/progress; STACK= state=
  while [ $SECONDS -lt $end ]; do
    seen=$(ask clusters/$1 2>$RUN/show.err) || seen='{}'
    state=$(jq -r '.status // "?"' <<<"$seen")
    line="$state: $(jq -r '.status_reason // ""' <<<"$seen")"
    [ "$line" = "$last" ] || { say "  $line"; echo "$line" >>$RUN/progress; last=$line; }
    # This client asks for the newest microversion, which shows no stack_id: the project's one stack is the cluster's.
    [ -n "$STACK" ] || STACK=$(os stack list -f value -c ID | head -n 1)
    if [ -n "$STACK" ] && [ -z "$signals" ]; then # the nodes never boot: this plays them
      ./signal-deployments $STACK $CREATE_LIMIT >$RUN/signals.log 2>&1 & signals=$!
    fi
    case $state in CREATE_COMPLETE | CREATE_FAILED) break;; esac
    for s in $2; do alive $s || give_up "$s has ended"; done
    sleep 2
  done
  must "the cluster is CREATE_COMPLETE" equals CREATE_COMPLETE value coe cluster show $1 status
}

# watch_delete UUID: until the cluster is gone
watch_delete() {
  local end=$((SECONDS + DELETE_LIMIT)) last= line
  while [ $SECONDS -lt $end ]; do
    case $(ask clusters/$1 -o $RUN/shown -w '%{http_code}') in
      404) break;;
      200) line=$(jq -r '"\(.status): \(.status_reason // "")"' $RUN/shown)
        [ "$line" = "$last" ] || { say "  $line"; last=$line; }
        case $line in DELETE_FAILED*) break;; esac;;
    esac
    sleep 2
  done
  must "the cluster is gone" has 'could not be found|not found|HTTP 404' os coe cluster show $1
}

# rows "CLUSTERS NODEGROUPS PAIRS": so many rows are in the database; no_row: nothing of a cluster is left there
no_row() { rows "0 0 0"; }
rows() { equals "$1" sql -N $DATABASE -e "select concat_ws(' ', (select count(*) from cluster), (select count(*) from nodegroup), (select count(*) from x509keypair))"; }
field() { $CLIENT/bin/python -c 'import base64,sys,yaml; c=yaml.safe_load(open(sys.argv[1])); print(eval(sys.argv[2],{"c":c,"d":lambda x:base64.b64decode(x).decode()}))' ${2:-$RUN/config/config} "$1"; }
