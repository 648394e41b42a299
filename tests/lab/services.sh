# Which process each service is; start_svc NAME / stop NAME. Used by up, down, run, adopt and by tests that stop one on purpose.
. "$(dirname "${BASH_SOURCE[0]}")/infra.sh"
export HOME=$OSLAB/home
export OS_NOVA_CONFIG_DIR=$OSLAB/etc/nova OS_NEUTRON_CONFIG_DIR=$OSLAB/etc/neutron OS_NEUTRON_CONFIG_FILES=neutron.conf
export OS_GLANCE_CONFIG_DIR=$OSLAB/etc/glance OS_PLACEMENT_CONFIG_DIR=$OSLAB/etc/placement
B=$VENV/bin
# uw NAME PORT WORKERS --module/--wsgi-file X: plain uwsgi on an HTTP socket. It closes every connection after one answer
# and would not say so; clients that keep connections alive then lose time to a retry, hence the header.
uw() { local n=$1 p=$2 w=$3; shift 3
  spawn $n $B/uwsgi --http-socket $IP:$p --master --processes $w --enable-threads --lazy-apps --die-on-term --buffer-size 65535 \
    --thunder-lock --disable-logging --add-header "Connection: close" --need-app --virtualenv $VENV "$@"; }
SERVICES="keystone heat-api heat-api-cfn heat-engine glance barbican placement neutron-rpc neutron nova-conductor nova-scheduler nova-api nova-compute cinder-api cinder-scheduler cinder-volume nameserver-stub designate-central designate-producer designate-worker designate-api octavia-api octavia-worker"
start_svc() { case $1 in
  mariadb) start_db;; rabbitmq) start_rabbit;; memcached) start_memcached;;
  keystone) uw keystone $KEYSTONE_PORT 2 --module keystone.wsgi.api:application;;
  heat-api) uw heat-api $HEAT_PORT 2 --module heat.wsgi.api:application;;
  heat-api-cfn) uw heat-api-cfn $HEAT_CFN_PORT 1 --module heat.wsgi.cfn:application;;
  heat-engine) spawn heat-engine $B/heat-engine;;
  glance) spawn glance $B/glance-api --config-dir $OSLAB/etc/glance/ --config-file $OSLAB/etc/glance/glance-api.conf;;
  barbican) uw barbican $BARBICAN_PORT 1 --wsgi-file $OSLAB/etc/barbican/app.py;;
  placement) uw placement $PLACEMENT_PORT 1 --module placement.wsgi.api:application;;
  neutron) uw neutron $NEUTRON_PORT 1 --module neutron.wsgi.api:application;;
  neutron-rpc) spawn neutron-rpc $B/neutron-rpc-server --config-file $OSLAB/etc/neutron/neutron.conf;;
  nova-api) uw nova-api $NOVA_PORT 1 --module nova.wsgi.osapi_compute:application;;
  nova-*) spawn $1 $B/$1 --config-file $OSLAB/etc/nova/nova.conf;;
  cinder-api) uw cinder-api $CINDER_PORT 1 --module cinder.wsgi.api:application;;
  cinder-*) spawn $1 $B/$1 --config-file $OSLAB/etc/cinder/cinder.conf;;
  nameserver-stub) spawn $1 $B/python $LAB/nameserver_stub.py $NAMESERVER_STUB_PORT;;
  designate-api) OS_DESIGNATE_CONFIG_DIR=$OSLAB/etc/designate uw $1 $DESIGNATE_PORT 1 --wsgi-file $B/designate-api-wsgi;;
  designate-*) spawn $1 $B/$1 --config-file $OSLAB/etc/designate/designate.conf;;
  octavia-api) uw octavia-api $OCTAVIA_PORT 1 --wsgi-file $B/octavia-wsgi;;
  octavia-worker) spawn octavia-worker $B/octavia-worker --config-file $OSLAB/etc/octavia/octavia.conf --config-file $OSLAB/etc/octavia/worker.conf;;
  # Upstream's Magnum, for `adopt`: as kolla starts it, with the configuration of $RUN.
  discovery-stub) spawn $1 $B/python $LAB/discovery_stub.py $DISCOVERY_STUB_PORT;;
  upstream-api) HOME=$RUN uw $1 $MAGNUM_PORT 2 --module magnum.wsgi.api:application;;
  upstream-conductor) spawn $1 $B/magnum-conductor --config-file $RUN/magnum.conf;;
  *) fail "no service $1";;
esac; }
# stop_all NAME...: all are told at once, then awaited (a uwsgi takes up to 16 s)
stop_all() { local s; for s in "$@"; do alive $s && kill -TERM $(pid $s); done; for s in "$@"; do stop $s; done; }
