# Ports, paths and OS_* variables of the lab. Source it:  . tests/lab/env.sh; as demo
export OSLAB=${OSLAB:-${MAGNUM_CACHE_DIR:-/var/tmp/magnum-cache}/lab}
LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); export LAB
export VENV=$OSLAB/venv-2025.1 CLIENT=$OSLAB/venv-client TEMPEST=$OSLAB/venv-tempest
export IP=127.0.0.1
export DB_PORT=23306 AMQP_PORT=25672 AMQP_DIST_PORT=25673 EPMD_PORT=24369 MEMCACHED_PORT=21211
export KEYSTONE_PORT=25000 HEAT_PORT=28004 HEAT_CFN_PORT=28000 GLANCE_PORT=29292
export PLACEMENT_PORT=28778 NOVA_PORT=28774 NEUTRON_PORT=29696 OCTAVIA_PORT=29876
export BARBICAN_PORT=29311 CINDER_PORT=28776 DESIGNATE_PORT=29001
# The catalogue's container-infra: nothing of the lab listens here, our own magnum-api does.
export MAGNUM_PORT=29511
# Stands in for the public etcd discovery service, which upstream's Magnum asks for an address before each cluster.
export DISCOVERY_STUB_PORT=22379
# Stands in for the nameserver that Designate asks whether it has come to know of a change.
export NAMESERVER_STUB_PORT=25353
# Stands in for the API of a cluster whose nodes do not boot.
export KUBERNETES_STUB_PORT=26443
export DB_USER=oslab DB_PASS=oslab AMQP_USER=oslab AMQP_PASS=oslab SERVICE_PASS=service
export OS_AUTH_URL=http://$IP:$KEYSTONE_PORT/v3 OS_IDENTITY_API_VERSION=3 OS_REGION_NAME=RegionOne
export OS_USERNAME=${OS_USERNAME:-admin} OS_PASSWORD=${OS_PASSWORD:-admin} OS_PROJECT_NAME=${OS_PROJECT_NAME:-admin}
export OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default OS_INTERFACE=public
export PATH=$CLIENT/bin:$PATH
export SHELL=${SHELL:-/bin/bash} # `coe cluster config` reads it and fails without
unset PYTHONDONTWRITEBYTECODE # each start of a client or a service would compile all its modules again
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY # everything is on loopback
# as USER [PROJECT]: the same shell as another user (demo/demo, demo2/demo2, reader/reader, member of demo).
as() { export OS_USERNAME=$1 OS_PASSWORD=$1 OS_PROJECT_NAME=${2:-$1}; }
sql() { mariadb --no-defaults --connect-timeout=10 -h $IP -P $DB_PORT -u $DB_USER -p$DB_PASS "$@"; }
